"""The schema as a driver sees it: metadata, its refresh by pushed events, and what comes back as CQL."""

from cassandra.cluster import SchemaTargetType  # noqa: F401  (fails early if the driver is not what we think)

from harness import check, equal, eventually, holds


def tables(cluster, keyspace):
    return cluster.metadata.keyspaces[keyspace].tables


@check
def metadata_of_a_table(context):
    context.run("CREATE TYPE point (x int, y frozen<list<text>>)")
    table = context.table('"K" text, k2 int, c1 timeuuid, c2 int, s text STATIC, v map<text, frozen<point>>, "select" blob, PRIMARY KEY (("K", k2), c1, c2)',
                          "WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC) AND comment = 'it''s' AND gc_grace_seconds = 77 AND default_time_to_live = 5 "
                          "AND compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 32} AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 8}")
    meta = tables(context.cluster, context.keyspace)[table]
    equal([column.name for column in meta.partition_key], ["K", "k2"])
    equal([(column.name, column.cql_type, column.is_reversed) for column in meta.clustering_key], [("c1", "timeuuid", True), ("c2", "int", False)])
    equal({name: column.cql_type for name, column in meta.columns.items()},
          {"K": "text", "k2": "int", "c1": "timeuuid", "c2": "int", "s": "text", "v": "map<text, frozen<point>>", "select": "blob"})
    holds(meta.columns["s"].is_static and not meta.columns["v"].is_static, "static")
    equal(meta.options["comment"], "it's")
    equal((meta.options["gc_grace_seconds"], meta.options["default_time_to_live"]), (77, 5))
    holds(meta.options["compaction"]["class"].endswith("LeveledCompactionStrategy"), meta.options["compaction"])
    equal(str(meta.options["compression"].get("chunk_length_in_kb")), "8")
    point = context.cluster.metadata.keyspaces[context.keyspace].user_types["point"]
    equal((list(point.field_names), list(point.field_types)), (["x", "y"], ["int", "frozen<list<text>>"]))
    text = meta.export_as_string()
    copy = text.replace(f"{context.keyspace}.{table} ", f"{context.keyspace}.copy_of_{table} ")
    holds(copy != text, "the text names the table")
    context.run(copy)
    again = tables(context.cluster, context.keyspace)[f"copy_of_{table}"].export_as_string()
    equal(again.replace(f"copy_of_{table}", table), text, "the copy made from its text")


@check
def metadata_follows_changes(context):
    """A second client is told by events."""
    other = context.new_cluster()
    try:
        other.connect()
        table = context.table("id int PRIMARY KEY, a int")
        eventually(lambda: table in tables(other, context.keyspace), "CREATE TABLE is seen")
        context.run(f"ALTER TABLE {table} ADD b list<text>")
        eventually(lambda: "b" in tables(other, context.keyspace)[table].columns, "ADD is seen")
        context.run(f"ALTER TABLE {table} DROP a")
        eventually(lambda: "a" not in tables(other, context.keyspace)[table].columns, "DROP is seen")
        context.run(f"ALTER TABLE {table} RENAME id TO key")
        eventually(lambda: "key" in tables(other, context.keyspace)[table].columns, "RENAME is seen")
        context.run(f"ALTER TABLE {table} WITH comment = 'new'")
        eventually(lambda: tables(other, context.keyspace)[table].options["comment"] == "new", "WITH is seen")
        context.run("CREATE TYPE later (a int)")
        eventually(lambda: "later" in other.metadata.keyspaces[context.keyspace].user_types, "CREATE TYPE is seen")
        context.run("ALTER TYPE later ADD b int")
        eventually(lambda: len(other.metadata.keyspaces[context.keyspace].user_types["later"].field_names) == 2, "ALTER TYPE is seen")
        context.run("DROP TYPE later")
        eventually(lambda: "later" not in other.metadata.keyspaces[context.keyspace].user_types, "DROP TYPE is seen")
        context.run(f"DROP TABLE {table}")
        eventually(lambda: table not in tables(other, context.keyspace), "DROP TABLE is seen")
        extra = f"{context.keyspace}_extra"
        context.run(f"DROP KEYSPACE IF EXISTS {extra}",
                    f"CREATE KEYSPACE {extra} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}} AND durable_writes = false")
        eventually(lambda: extra in other.metadata.keyspaces, "CREATE KEYSPACE is seen")
        equal(other.metadata.keyspaces[extra].durable_writes, False)
        context.run(f"ALTER KEYSPACE {extra} WITH durable_writes = true")
        eventually(lambda: other.metadata.keyspaces[extra].durable_writes, "ALTER KEYSPACE is seen")
        context.run(f"DROP KEYSPACE {extra}")
        eventually(lambda: extra not in other.metadata.keyspaces, "DROP KEYSPACE is seen")
    finally:
        other.shutdown()


@check
def schema_agreement(context):
    versions = {row[0] for row in context.rows("SELECT schema_version FROM system.local")} | {row[0] for row in context.rows("SELECT schema_version FROM system.peers")}
    equal(len(versions), 1)
    context.table("id int PRIMARY KEY")
    now = {row[0] for row in context.rows("SELECT schema_version FROM system.local")}
    holds(now != versions, "a change of the schema is a new version")


@check
def system_tables(context):
    row = context.rows("SELECT key, cluster_name, cql_version, data_center, rack, partitioner, release_version, native_protocol_version FROM system.local WHERE key = 'local'")[0]
    equal(row[0], "local")
    holds(all(row), f"a column of system.local is empty: {row}")
    equal(row[5], "org.apache.cassandra.dht.Murmur3Partitioner")
    host = list(context.cluster.metadata.all_hosts())
    equal(len(host), 1)
    holds(host[0].datacenter and host[0].rack and host[0].release_version and host[0].host_id, "the driver knows the host")
    names = {row[0] for row in context.rows("SELECT keyspace_name FROM system_schema.keyspaces")}
    holds({"system", "system_schema", context.keyspace} <= names, f"keyspaces {names}")
    for table in ["tables", "columns", "types", "views", "indexes", "functions", "aggregates", "triggers"]:
        context.rows(f"SELECT * FROM system_schema.{table}")
    for table in ["system_virtual_schema.keyspaces", "system_virtual_schema.tables", "system_virtual_schema.columns", "system.size_estimates", "system.peers", "system.peers_v2"]:
        context.rows(f"SELECT * FROM {table}")
    # What monitoring reads.
    latency = {"keyspace_name", "table_name", "count", "max_ms", "p50th_ms", "p99th_ms", "per_second"}
    for table, columns in {
        "caches": {"name", "capacity_bytes", "entry_count", "hit_count", "hit_ratio", "request_count", "size_bytes"},
        "thread_pools": {"name", "active_tasks", "active_tasks_limit", "completed_tasks", "pending_tasks"},
        "sstable_tasks": {"keyspace_name", "table_name", "task_id", "kind", "progress", "total", "unit"},
        "local_read_latency": latency, "coordinator_write_latency": latency, "settings": {"name", "value"},
        "system_properties": {"name", "value"}, "disk_usage": {"keyspace_name", "table_name", "mebibytes"},
    }.items():
        answer = context.session.execute(f"SELECT * FROM system_views.{table}")
        holds(columns <= set(answer.column_names), f"columns of {table}: {answer.column_names}")
        list(answer)
    names = {row[0] for row in context.rows("SELECT name FROM system_views.caches")}
    holds({"keys", "rows"} <= names, f"caches {names}")
    options = context.rows("SELECT driver_name, connection_stage FROM system_views.clients")
    holds(options and all(stage == "ready" for _, stage in options), f"clients {options}")


@check
def describe_on_the_server(context):
    context.run("CREATE TYPE described (a int)")
    table = context.table("id int PRIMARY KEY, v frozen<described>")
    rows = context.rows(f"DESCRIBE TABLE {context.keyspace}.{table}")
    equal(rows[0][:3], (context.keyspace, "table", table))
    holds(rows[0][3].startswith(f"CREATE TABLE {context.keyspace}.{table} ("), rows[0][3])
    texts = [row[3] for row in context.rows(f"DESCRIBE KEYSPACE {context.keyspace}")]
    holds(texts[0].startswith(f"CREATE KEYSPACE {context.keyspace}"), texts[0])
    holds(any(f"CREATE TYPE {context.keyspace}.described" in text for text in texts), "the type is described")
    holds(any(row[2] == context.keyspace for row in context.rows("DESCRIBE KEYSPACES")), "DESCRIBE KEYSPACES")
    holds(any(row[2] == table for row in context.rows("DESCRIBE TABLES")), "DESCRIBE TABLES")
    equal(len(context.rows("DESCRIBE CLUSTER")), 1)
    holds(any(row[2] == table for row in context.rows("DESCRIBE FULL SCHEMA")), "DESCRIBE FULL SCHEMA")
