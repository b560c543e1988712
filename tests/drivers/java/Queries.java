import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.data.UdtValue;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Answers a file of queries by a digest each, in the form that the programs of all languages agree on (tests/drivers/debian/README.md).
 *
 * A line of the file: name, page size, CQL, text parameters, separated by tabs.
 */
final class Queries {
  static void run(CqlSession session, String file) throws Exception {
    for (String line : Files.readAllLines(Path.of(file))) {
      String[] fields = line.split("\t", -1);
      PreparedStatement prepared = session.prepare(fields[2]);
      Object[] values = Arrays.copyOfRange(fields, 3, fields.length, Object[].class);
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      int rows = 0;
      for (Row row : session.execute(prepared.bind(values).setPageSize(Integer.parseInt(fields[1])))) {
        List<String> columns = new ArrayList<>();
        for (int index = 0; index < row.size(); index++) {
          columns.add(row.isNull(index) ? "~" : text(row.getObject(index))); // the driver makes an empty collection of null
        }
        digest.update((String.join("\t", columns) + "\n").getBytes(StandardCharsets.UTF_8));
        rows++;
      }
      StringBuilder hex = new StringBuilder();
      for (byte each : digest.digest()) {
        hex.append(String.format("%02x", each));
      }
      System.out.println(fields[0] + " " + rows + " " + hex);
    }
  }

  static String text(Object value) {
    if (value == null) {
      return "~";
    }
    if (value instanceof List<?> || value instanceof Set<?>) {
      Collection<String> parts = value instanceof Set<?> ? new TreeSet<>(Queries::byBytes) : new ArrayList<>();
      for (Object each : (Collection<?>) value) {
        parts.add(text(each));
      }
      return "[" + String.join(",", parts) + "]";
    }
    if (value instanceof Map<?, ?> map) {
      Collection<String> parts = new TreeSet<>(Queries::byBytes);
      map.forEach((key, each) -> parts.add(text(key) + "=" + text(each)));
      return "{" + String.join(",", parts) + "}";
    }
    if (value instanceof UdtValue udt) {
      List<String> parts = new ArrayList<>();
      for (int index = 0; index < udt.size(); index++) {
        parts.add(text(udt.getObject(index)));
      }
      return "(" + String.join("|", parts) + ")";
    }
    return value.toString();
  }

  static int byBytes(String one, String other) {
    return Arrays.compareUnsigned(one.getBytes(StandardCharsets.UTF_8), other.getBytes(StandardCharsets.UTF_8));
  }
}
