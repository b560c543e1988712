"""The protocol itself: flags and options of requests, frames of any size, keyspaces per request, shards."""

import time

from cassandra import ProtocolVersion
from cassandra.query import SimpleStatement

from harness import check, equal, eventually, holds


@check
def version_and_compression_are_those_asked_for(context):
    equal(context.cluster.protocol_version, context.protocol)
    connection = context.cluster.control_connection._connection
    equal(bool(connection.compressor) or bool(getattr(connection, "_is_checksumming_enabled", False) and context.compression), bool(context.compression))


@check
def large_frames(context):
    """Over the 128 KiB of a version 5 segment, both ways, of what compresses and what does not."""
    import random

    table = context.table("id int PRIMARY KEY, v blob, s text")
    insert = context.session.prepare(f"INSERT INTO {table} (id, v) VALUES (?, ?)")
    select = context.session.prepare(f"SELECT v FROM {table} WHERE id = ?")
    noise = random.Random(1)
    for size in [100, 131071 - 60, 131072, 200000, 3_000_000]:
        for value in [b"z" * size, noise.randbytes(size)]:
            context.session.execute(insert, (size, value))
            got = context.rows(select, size)[0][0]
            holds(got == value, f"{size} bytes came back as {len(got)} others")
    text = "long statement " * 20000
    context.session.execute(f"INSERT INTO {table} (id, s) VALUES (7, '{text}')")
    holds(context.rows(f"SELECT s FROM {table} WHERE id = 7")[0][0] == text, "a statement of 300 KB")
    rows = [(each, noise.randbytes(1000)) for each in range(1000, 1500)]
    for row in rows:
        context.session.execute_async(insert, row)
    eventually(lambda: len(context.rows(f"SELECT id FROM {table} WHERE id >= 1000 AND id < 1500 ALLOW FILTERING")) == 500, "500 rows written")
    got = context.rows(SimpleStatement(f"SELECT id, v FROM {table} WHERE id >= 1000 AND id < 1500 ALLOW FILTERING", fetch_size=5000))
    equal(len(got), 500)
    holds(dict(got) == dict(rows), "a page of 500 KB")


@check
def tracing_does_not_disturb(context):
    table = context.table("id int PRIMARY KEY, v int")
    context.session.execute(f"INSERT INTO {table} (id, v) VALUES (1, 2)", trace=True)
    result = context.session.execute(f"SELECT v FROM {table} WHERE id = 1", trace=True)
    equal(list(result), [(2,)])
    prepared = context.session.prepare(f"SELECT v FROM {table} WHERE id = ?")
    equal(list(context.session.execute(prepared, (1,), trace=True)), [(2,)])


@check
def custom_payload_is_accepted(context):
    if context.protocol < 4:
        return  # the protocol has none before version 4
    table = context.table("id int PRIMARY KEY, v int")
    context.session.execute(f"INSERT INTO {table} (id, v) VALUES (1, 2)", custom_payload={"who": b"\0\1", "empty": b""})
    equal(list(context.session.execute(f"SELECT v FROM {table}", custom_payload={"who": b"x"})), [(2,)])


@check
def keyspace_of_the_session(context):
    other = f"{context.keyspace}_other"
    context.run(f"DROP KEYSPACE IF EXISTS {other}", f"CREATE KEYSPACE {other} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
                f"CREATE TABLE {other}.here (id int PRIMARY KEY, v text)", f"INSERT INTO {other}.here (id, v) VALUES (1, 'other')")
    table = context.table("id int PRIMARY KEY")
    cluster = context.new_cluster()
    try:
        session = cluster.connect(other)
        equal(list(session.execute("SELECT v FROM here")), [("other",)])
        session.execute(f"USE {context.keyspace}")
        equal(list(session.execute(f"SELECT id FROM {table}")), [])
    finally:
        cluster.shutdown()
    if context.protocol >= ProtocolVersion.V5:
        equal(list(context.session.execute(SimpleStatement("SELECT v FROM here", keyspace=other))), [("other",)], "keyspace of a query")
        prepared = context.session.prepare("SELECT v FROM here WHERE id = ?", keyspace=other)
        equal(list(context.session.execute(prepared, (1,))), [("other",)], "keyspace of a prepared statement")
        equal(list(context.session.execute(f"SELECT id FROM {table}")), [], "and the session's is as it was")
    context.run(f"DROP KEYSPACE {other}")


@check
def result_metadata_changes(context):
    if context.protocol < 5:
        return  # before version 5 a client cannot learn of it
    table = context.table("id int PRIMARY KEY, a int")
    context.run(f"INSERT INTO {table} (id, a) VALUES (1, 2)")
    prepared = context.session.prepare(f"SELECT * FROM {table} WHERE id = ?")
    equal(list(context.session.execute(prepared, (1,))), [(1, 2)])
    context.run(f"ALTER TABLE {table} ADD b text", f"UPDATE {table} SET b = 'new' WHERE id = 1")
    for _ in range(2):
        equal(list(context.session.execute(prepared, (1,))), [(1, 2, "new")], "the new column is there")
    equal(len(prepared.result_metadata), 3)


@check
def quoted_names(context):
    context.run('CREATE TABLE "QuotedTable" ("Key" int PRIMARY KEY, "select" text, "a b" int)')
    context.run('INSERT INTO "QuotedTable" ("Key", "select", "a b") VALUES (1, \'x\', 2)')
    result = context.session.execute('SELECT "Key", "select", "a b" FROM "QuotedTable"')
    equal(list(result.column_names), ["Key", "select", "a b"])
    equal(list(result), [(1, "x", 2)])
    equal(context.rows('SELECT "a b" AS other FROM "QuotedTable"'), [(2,)])


@check
def connections_come_and_go(context):
    table = context.table("id int PRIMARY KEY")
    begin = time.monotonic()
    for each in range(10):
        cluster = context.new_cluster(schema_metadata_enabled=False, token_metadata_enabled=False)
        cluster.connect(context.keyspace).execute(f"INSERT INTO {table} (id) VALUES ({each})")
        cluster.shutdown()
    equal(len(context.rows(f"SELECT id FROM {table}")), 10)
    holds(time.monotonic() - begin < 60, "ten connections take a minute")


@check
def a_connection_per_shard(context):
    """Only with a driver that knows shards and a server that has them."""
    if not context.shard_aware_port:
        return
    pool = list(context.session.get_pools())[0]
    sharding = pool.host.sharding_info
    holds(sharding is not None, "the driver found no shards in SUPPORTED")
    equal(sharding.shard_aware_port, context.shard_aware_port)
    eventually(lambda: len(pool._connections) == sharding.shards_count, f"a connection to each of {sharding.shards_count} shards, by port {context.shard_aware_port}")
