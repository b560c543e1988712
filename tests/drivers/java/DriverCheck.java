import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.data.*;
import com.datastax.oss.driver.api.core.metadata.schema.*;
import com.datastax.oss.driver.api.core.metadata.token.TokenRange;
import com.datastax.oss.driver.api.core.servererrors.*;
import com.datastax.oss.driver.api.core.type.*;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.*;
import java.util.*;
import java.util.concurrent.CompletionStage;

/**
 * The checks of the Java driver 4, and its answers to the queries of the Debian test.
 *
 * <pre>
 * DriverCheck check HOST:PORT PROTOCOL COMPRESSION    PASS or FAIL per check, then `N passed, N failed`; PROTOCOL is V3, V4 or V5
 * DriverCheck queries HOST:PORT FILE                  a line `name rows sha256` per query of the file (see Queries)
 * </pre>
 */
public final class DriverCheck {
  interface Check {
    void run() throws Exception;
  }

  static int passed, failed;
  static CqlSession session;

  public static void main(String[] arguments) throws Exception {
    String[] contact = arguments[1].split(":");
    InetSocketAddress address = new InetSocketAddress(contact[0], Integer.parseInt(contact[1]));
    if (arguments[0].equals("queries")) {
      try (CqlSession session = connect(address, "V4", "none")) {
        Queries.run(session, arguments[2]);
      }
      return;
    }
    String protocol = arguments[2];
    String compression = arguments[3];
    String label = "java " + protocol.toLowerCase() + " " + compression + " ";
    try (CqlSession open = connect(address, protocol, compression)) {
      session = open;
      String keyspace = "java_" + protocol.toLowerCase() + "_" + compression;
      execute("DROP KEYSPACE IF EXISTS " + keyspace);
      execute("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      execute("USE " + keyspace);
      check(label + "protocol", () -> equal(protocol, session.getContext().getProtocolVersion().name()));
      check(label + "types", DriverCheck::types);
      check(label + "user types, tuples and nested collections", DriverCheck::userTypes);
      check(label + "schema metadata", () -> metadata(keyspace));
      check(label + "named, null and unset values", DriverCheck::values);
      check(label + "paging", DriverCheck::paging);
      check(label + "batches", DriverCheck::batches);
      check(label + "counters", DriverCheck::counters);
      check(label + "lightweight transactions", DriverCheck::transactions);
      check(label + "requests at once", DriverCheck::concurrency);
      check(label + "token ranges", DriverCheck::tokens);
      check(label + "errors", DriverCheck::errors);
      check(label + "end", () -> execute("DROP KEYSPACE " + keyspace));
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 && passed > 0 ? 0 : 1);
  }

  static CqlSession connect(InetSocketAddress address, String protocol, String compression) {
    Duration patience = Duration.ofSeconds(60);
    return CqlSession.builder()
        .addContactPoint(address)
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(
            DriverConfigLoader.programmaticBuilder()
                .withString(DefaultDriverOption.PROTOCOL_VERSION, protocol)
                .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression)
                .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, patience)
                .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, patience)
                .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, patience)
                .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, patience)
                .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(20))
                .build())
        .build();
  }

  static void check(String name, Check body) {
    try {
      body.run();
      passed++;
      System.out.println("PASS " + name);
    } catch (Throwable error) {
      failed++;
      System.out.println("FAIL " + name + ": " + error);
      for (StackTraceElement frame : error.getStackTrace()) {
        if (frame.getClassName().startsWith("DriverCheck") && !frame.getMethodName().equals("equal")) {
          System.out.println("     at " + frame);
          break;
        }
      }
    }
  }

  static void equal(Object expected, Object got) {
    if (!Objects.equals(expected, got)) {
      throw new AssertionError("expected " + expected + ", got " + got);
    }
  }

  static ResultSet execute(String query, Object... values) {
    return session.execute(SimpleStatement.newInstance(query, values));
  }

  static void types() throws Exception {
    Map<String, List<Object>> values = new LinkedHashMap<>();
    values.put("ascii", List.of("", "plain"));
    values.put("bigint", List.of(0L, Long.MIN_VALUE, Long.MAX_VALUE));
    values.put("blob", List.of(ByteBuffer.wrap(new byte[0]), ByteBuffer.wrap(new byte[] {0, -1, 7})));
    values.put("boolean", List.of(true, false));
    values.put("date", List.of(LocalDate.of(1970, 1, 1), LocalDate.of(2023, 11, 14), LocalDate.of(-5, 3, 1)));
    values.put("decimal", List.of(new BigDecimal("-1.50"), new BigDecimal("1E+3"), new BigDecimal("123456789012345678901234567890.5")));
    values.put("double", List.of(0.0, -1e300, Double.MIN_VALUE, Double.NaN, Double.POSITIVE_INFINITY));
    values.put("duration", List.of(CqlDuration.newInstance(14, 3, 4_000_000_000L), CqlDuration.newInstance(-1, -2, -3)));
    values.put("float", List.of(1.5f, -1.25e30f));
    values.put("inet", List.of(InetAddress.getByName("127.0.0.1"), InetAddress.getByName("2001:db8::1")));
    values.put("int", List.of(0, Integer.MIN_VALUE, Integer.MAX_VALUE));
    values.put("smallint", List.of((short) 0, Short.MIN_VALUE, Short.MAX_VALUE));
    values.put("text", List.of("", "naïve 日本語 😀", "x".repeat(200_000)));
    values.put("time", List.of(LocalTime.MIDNIGHT, LocalTime.of(23, 59, 59, 999_999_999)));
    values.put("timestamp", List.of(Instant.ofEpochMilli(0), Instant.parse("2023-11-14T22:13:20.123Z"), Instant.parse("1901-02-03T04:05:06Z")));
    values.put("timeuuid", List.of(UUID.fromString("a5ac0bd0-7f41-11ee-b962-0242ac120002")));
    values.put("tinyint", List.of((byte) 0, Byte.MIN_VALUE, Byte.MAX_VALUE));
    values.put("uuid", List.of(new UUID(0, 0), new UUID(-1, -1)));
    values.put("varint", List.of(BigInteger.ZERO, BigInteger.ONE.shiftLeft(200).negate(), BigInteger.valueOf(255)));
    values.put("list<int>", List.of(List.of(3, 1, 2)));
    values.put("set<text>", List.of(Set.of("b", "a")));
    values.put("map<text, bigint>", List.of(Map.of("a", 1L, "b", -2L)));
    if (session.getContext().getProtocolVersion().getCode() < 4) {
      values.keySet().removeAll(List.of("date", "time", "smallint", "tinyint")); // the driver does not know them there
    }
    if (session.getContext().getProtocolVersion().getCode() < 5) {
      values.keySet().remove("duration");
    }
    int number = 0;
    for (Map.Entry<String, List<Object>> each : values.entrySet()) {
      String table = "types_" + number++;
      execute("CREATE TABLE " + table + " (id int PRIMARY KEY, v " + each.getKey() + ")");
      PreparedStatement insert = session.prepare("INSERT INTO " + table + " (id, v) VALUES (?, ?)");
      PreparedStatement select = session.prepare("SELECT v FROM " + table + " WHERE id = ?");
      for (int id = 0; id < each.getValue().size(); id++) {
        session.execute(insert.bind(id, each.getValue().get(id)));
        Row row = session.execute(select.bind(id)).one();
        if (!Objects.equals(each.getValue().get(id), row.getObject(0))) {
          throw new AssertionError(each.getKey() + ": expected " + each.getValue().get(id) + ", got " + row.getObject(0));
        }
      }
      session.execute(insert.bind(-1, null));
      equal(true, session.execute(select.bind(-1)).one().isNull(0));
    }
  }

  static void userTypes() {
    execute("CREATE TYPE street (name text, number int)");
    execute("CREATE TABLE people (id int PRIMARY KEY, home frozen<street>, open street, pair tuple<int, text>, deep list<frozen<map<text, frozen<set<int>>>>>)");
    UserDefinedType type = session.getMetadata().getKeyspace(session.getKeyspace().get()).get().getUserDefinedType("street").get();
    PreparedStatement insert = session.prepare("INSERT INTO people (id, home, open, pair, deep) VALUES (?, ?, ?, ?, ?)");
    session.execute(insert.bind(1, type.newValue("Via", 7), type.newValue(null, 8), ((TupleType) insert.getVariableDefinitions().get(3).getType()).newValue(5, "x"),
        List.of(Map.of("a", Set.of(1, 2)), Map.of())));
    Row row = session.execute("SELECT home, open, pair, deep FROM people WHERE id = 1").one();
    equal("Via", row.getUdtValue(0).getString("name"));
    equal(7, row.getUdtValue(0).getInt("number"));
    equal(null, row.getUdtValue(1).getString(0));
    equal("x", row.getTupleValue(2).getString(1));
    equal(List.of(Map.of("a", Set.of(1, 2)), Map.of()), row.getObject(3));
  }

  static void metadata(String keyspace) {
    execute("CREATE TABLE described (a int, \"B\" text, c timeuuid, s int STATIC, v map<text, int>, PRIMARY KEY ((a, \"B\"), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'hello'");
    TableMetadata table = session.getMetadata().getKeyspace(keyspace).get().getTable("described").get();
    equal(2, table.getPartitionKey().size());
    equal("[B]", List.of(table.getPartitionKey().get(1).getName().asInternal()).toString());
    equal("DESC", table.getClusteringColumns().values().iterator().next().name());
    equal(true, table.getColumn("s").get().isStatic());
    equal("hello", table.getOptions().get(CqlIdentifier.fromCql("comment")));
    String copy = table.describe(false).replace("\"described\"", "\"copy\"").replace(".described", ".copy");
    execute(copy.replaceAll(";\\s*$", ""));
    equal(table.getColumns().keySet(), session.getMetadata().getKeyspace(keyspace).get().getTable("copy").get().getColumns().keySet());
    execute("ALTER TABLE described ADD later int");
    equal(true, session.getMetadata().getKeyspace(keyspace).get().getTable("described").get().getColumn("later").isPresent());
    equal(true, session.checkSchemaAgreement());
  }

  static void values() {
    execute("CREATE TABLE vals (id int PRIMARY KEY, a text, b int)");
    PreparedStatement insert = session.prepare("INSERT INTO vals (id, a, b) VALUES (:id, :a, :b)");
    session.execute(insert.boundStatementBuilder().setInt("id", 1).setString("a", "x").setInt("b", 2).build());
    boolean unset = session.getContext().getProtocolVersion().getCode() >= 4;
    if (unset) {
      session.execute(insert.boundStatementBuilder().setInt("id", 1).setToNull("a").build());
    } else {
      session.execute(insert.boundStatementBuilder().setInt("id", 1).setToNull("a").setInt("b", 2).build());
    }
    Row row = execute("SELECT a, b FROM vals WHERE id = ?", 1).one();
    equal(null, row.getString(0));
    equal(2, row.getInt(1));
    execute("INSERT INTO vals (id, a) VALUES (?, ?)", 3, "positional");
    session.execute(SimpleStatement.newInstance("INSERT INTO vals (id, a) VALUES (:i, :t)", Map.of("i", 4, "t", "named")));
    equal("named", execute("SELECT a FROM vals WHERE id = 4").one().getString(0));
  }

  static void paging() throws Exception {
    execute("CREATE TABLE pages (k int, c int, v text, PRIMARY KEY (k, c))");
    PreparedStatement insert = session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)");
    for (int c = 0; c < 250; c++) {
      session.execute(insert.bind(1, c, "v" + c));
    }
    for (String order : List.of("ASC", "DESC")) {
      for (int size : new int[] {3, 100, 249, 250, 251}) {
        int next = order.equals("ASC") ? 0 : 249;
        int seen = 0;
        for (Row row : session.execute(SimpleStatement.newInstance("SELECT c, v FROM pages WHERE k = 1 ORDER BY c " + order).setPageSize(size))) {
          equal(next, row.getInt(0));
          equal("v" + next, row.getString(1));
          next += order.equals("ASC") ? 1 : -1;
          seen++;
        }
        equal(250, seen);
      }
    }
    ResultSet first = session.execute(SimpleStatement.newInstance("SELECT c FROM pages WHERE k = 1").setPageSize(40));
    ByteBuffer state = first.getExecutionInfo().getPagingState();
    Row row = session.execute(SimpleStatement.newInstance("SELECT c FROM pages WHERE k = 1").setPageSize(40).setPagingState(state)).one();
    equal(40, row.getInt(0));
    AsyncResultSet page = session.executeAsync(SimpleStatement.newInstance("SELECT c FROM pages WHERE k = 1").setPageSize(100)).toCompletableFuture().get();
    int rows = page.remaining();
    while (page.hasMorePages()) {
      page = page.fetchNextPage().toCompletableFuture().get();
      rows += page.remaining();
    }
    equal(250, rows);
  }

  static void batches() {
    execute("CREATE TABLE batched (k int, c int, PRIMARY KEY (k, c))");
    PreparedStatement insert = session.prepare("INSERT INTO batched (k, c) VALUES (?, ?)");
    for (BatchType type : List.of(DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED)) {
      BatchStatementBuilder batch = BatchStatement.builder(type);
      for (int c = 0; c < 10; c++) {
        batch.addStatement(insert.bind(type == DefaultBatchType.LOGGED ? 1 : 2, c));
      }
      batch.addStatement(SimpleStatement.newInstance("INSERT INTO batched (k, c) VALUES (3, ?)", type == DefaultBatchType.LOGGED ? 1 : 2));
      session.execute(batch.build());
    }
    equal(22, execute("SELECT * FROM batched").all().size());
  }

  static void counters() {
    execute("CREATE TABLE counts (k int PRIMARY KEY, n counter)");
    PreparedStatement add = session.prepare("UPDATE counts SET n = n + ? WHERE k = 1");
    for (long each = 1; each <= 10; each++) {
      session.execute(add.bind(each));
    }
    equal(55L, execute("SELECT n FROM counts WHERE k = 1").one().getLong(0));
  }

  static void transactions() {
    execute("CREATE TABLE lwt (k int PRIMARY KEY, v text)");
    equal(true, execute("INSERT INTO lwt (k, v) VALUES (1, 'a') IF NOT EXISTS").wasApplied());
    ResultSet refused = execute("INSERT INTO lwt (k, v) VALUES (1, 'b') IF NOT EXISTS");
    equal(false, refused.wasApplied());
    equal("a", refused.one().getString("v"));
    PreparedStatement update = session.prepare("UPDATE lwt SET v = ? WHERE k = ? IF v = ?");
    equal(false, session.execute(update.bind("c", 1, "z")).wasApplied());
    equal(true, session.execute(update.bind("c", 1, "a").setSerialConsistencyLevel(ConsistencyLevel.LOCAL_SERIAL)).wasApplied());
    equal(true, execute("DELETE FROM lwt WHERE k = 1 IF EXISTS").wasApplied());
  }

  static void concurrency() throws Exception {
    execute("CREATE TABLE many (id int PRIMARY KEY, v text)");
    PreparedStatement insert = session.prepare("INSERT INTO many (id, v) VALUES (?, ?)");
    PreparedStatement select = session.prepare("SELECT v FROM many WHERE id = ?");
    List<CompletionStage<AsyncResultSet>> running = new ArrayList<>();
    for (int id = 0; id < 1000; id++) {
      running.add(session.executeAsync(insert.bind(id, "v" + id)));
    }
    for (CompletionStage<AsyncResultSet> each : running) {
      each.toCompletableFuture().get();
    }
    running.clear();
    for (int id = 0; id < 1000; id++) {
      running.add(session.executeAsync(select.bind(id)));
    }
    for (int id = 0; id < 1000; id++) {
      equal("v" + id, running.get(id).toCompletableFuture().get().one().getString(0));
    }
  }

  static void tokens() {
    int seen = 0;
    var map = session.getMetadata().getTokenMap().get();
    PreparedStatement select = session.prepare("SELECT id FROM many WHERE token(id) > ? AND token(id) <= ?");
    for (TokenRange range : map.getTokenRanges()) {
      for (TokenRange part : range.unwrap()) {
        seen += session.execute(select.bind().setToken(0, part.getStart()).setToken(1, part.getEnd().equals(minimum(map)) ? maximum() : part.getEnd())).all().size();
      }
    }
    equal(1000, seen);
  }

  static com.datastax.oss.driver.api.core.metadata.token.Token minimum(com.datastax.oss.driver.api.core.metadata.TokenMap map) {
    return map.parse("" + Long.MIN_VALUE);
  }

  static com.datastax.oss.driver.api.core.metadata.token.Token maximum() {
    return session.getMetadata().getTokenMap().get().parse("" + Long.MAX_VALUE);
  }

  static void errors() {
    fails(com.datastax.oss.driver.api.core.servererrors.SyntaxError.class, "SELEC * FROM x");
    fails(InvalidQueryException.class, "SELECT * FROM no_such_table");
    fails(InvalidQueryException.class, "SELECT nothing FROM many");
    fails(InvalidQueryException.class, "SELECT * FROM many WHERE v = 'x'");
    fails(AlreadyExistsException.class, "CREATE TABLE many (id int PRIMARY KEY)");
    fails(InvalidConfigurationInQueryException.class, "CREATE KEYSPACE bad WITH replication = {'class': 'NoSuchStrategy', 'replication_factor': 1}");
    equal(1000, execute("SELECT id FROM many").all().size());
  }

  static void fails(Class<? extends Exception> kind, String query) {
    try {
      execute(query);
    } catch (Exception error) {
      equal(kind.getSimpleName() + " of " + query, error.getClass().getSimpleName() + " of " + query);
      return;
    }
    throw new AssertionError(query + " did not fail");
  }
}
