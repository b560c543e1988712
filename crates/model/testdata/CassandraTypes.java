import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Writes cassandra_types.txt and cassandra_vectors.txt: what Apache Cassandra itself makes of type names and
 * of serialized values.
 *
 * With cassandra-all 4.1.7 (for vectors 5.0.4) and its dependencies on the class path:
 *     python3 cassandra_inputs.py > inputs.txt
 *     java -cp ... CassandraTypes.java inputs.txt | grep -P "^(type|value|order)\\t" > cassandra_types.txt
 *
 * Input lines are a class name and any number of values in hexadecimal ("-" is no bytes), tab-separated.
 * Output lines, tab-separated:
 *     type    name as given   name as printed   CQL name
 *     value   name as given   bytes   "ok" or the validation error   JSON   unquoted text   ("!" where it throws)
 *     order   name as given   one line per type: for each pair i < j of its valid values the sign, as <, = or >
 */
public class CassandraTypes {
    interface Action { String run() throws Exception; }

    static String attempt(Action action) {
        try {
            return action.run().replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
        } catch (Throwable thrown) {
            return "!";
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        for (String line : Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8)) {
            if (line.isEmpty() || line.startsWith("#"))
                continue;
            String[] fields = line.split("\t");
            AbstractType<?> type;
            try {
                type = TypeParser.parse(fields[0]);
            } catch (Exception refused) {
                out.println("type\t" + fields[0] + "\t!\t!");
                continue;
            }
            out.println("type\t" + fields[0] + "\t" + type + "\t" + type.asCQL3Type());
            List<ByteBuffer> valid = new ArrayList<>();
            for (int i = 1; i < fields.length; i++) {
                ByteBuffer value = ByteBufferUtil.hexToBytes(fields[i].equals("-") ? "" : fields[i]);
                String verdict = "ok";
                try {
                    type.validate(value.duplicate());
                    valid.add(value);
                } catch (Throwable thrown) {
                    verdict = "" + thrown.getMessage();
                }
                out.println("value\t" + fields[0] + "\t" + fields[i] + "\t" + verdict + "\t"
                            + attempt(() -> type.toJSONString(value.duplicate(), ProtocolVersion.V4)) + "\t"
                            + attempt(() -> type.getString(value.duplicate())));
            }
            StringBuilder order = new StringBuilder();
            for (int i = 0; i < valid.size(); i++)
                for (int j = i + 1; j < valid.size(); j++) {
                    ByteBuffer a = valid.get(i), b = valid.get(j);
                    order.append(attempt(() -> {
                        int sign = type.compare(a.duplicate(), b.duplicate());
                        return sign < 0 ? "<" : sign > 0 ? ">" : "=";
                    }));
                }
            out.println("order\t" + fields[0] + "\t" + order);
        }
        out.flush();
        System.exit(0);
    }
}
