"""Statements: bind markers, unset and null, batches, lightweight transactions, errors by their class."""

import uuid

from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, Unavailable
from cassandra.policies import FallthroughRetryPolicy
from cassandra.protocol import ConfigurationException, ServerError, SyntaxException
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement

from harness import Failed, check, equal, holds, raises


@check
def bind_markers(context):
    table = context.table("id int PRIMARY KEY, a text, b int")
    named = context.session.prepare(f"INSERT INTO {table} (id, a, b) VALUES (:key, :text, :number)")
    equal([column.name for column in named.column_metadata], ["key", "text", "number"])
    context.session.execute(named, {"text": "x", "number": 5, "key": 1})
    equal(context.rows(f"SELECT id, a, b FROM {table}"), [(1, "x", 5)])
    plain = context.session.prepare(f"SELECT a FROM {table} WHERE id = ?")
    equal([column.name for column in plain.column_metadata], ["id"])
    equal(list(plain.routing_key_indexes), [0])
    compound = context.table("a int, b text, c int, PRIMARY KEY ((a, b), c)")
    routed = context.session.prepare(f"INSERT INTO {compound} (c, b, a) VALUES (?, ?, ?)")
    equal(list(routed.routing_key_indexes), [2, 1], "routing key of a compound key")
    again = context.session.prepare(f"SELECT a FROM {table} WHERE id = ?")
    equal(again.query_id, plain.query_id, "the same text has the same id")


@check
def unset_values(context):
    if context.protocol < 4:
        return  # the protocol has none before version 4
    table = context.table("id int PRIMARY KEY, a text, b list<int>")
    insert = context.session.prepare(f"INSERT INTO {table} (id, a, b) VALUES (?, ?, ?)")
    context.session.execute(insert, (1, "x", [1]))
    context.session.execute(insert, (1, UNSET_VALUE, UNSET_VALUE))
    equal(context.rows(f"SELECT a, b FROM {table} WHERE id = 1"), [("x", [1])], "unset leaves what is there")
    context.session.execute(insert, (1, None, UNSET_VALUE))
    equal(context.rows(f"SELECT a, b FROM {table} WHERE id = 1"), [(None, [1])], "null deletes")
    clustered = context.table("k int, c int, PRIMARY KEY (k, c)")
    keyless = context.session.prepare(f"INSERT INTO {clustered} (k, c) VALUES (?, ?)")
    raises(InvalidRequest, lambda: context.session.execute(keyless, (1, UNSET_VALUE)))
    limited = context.session.prepare(f"SELECT id FROM {table} LIMIT ?")
    equal(context.rows(limited, UNSET_VALUE), [(1,)], "an unset limit is no limit")
    ttl = context.session.prepare(f"UPDATE {table} USING TTL ? SET a = ? WHERE id = ?")
    context.session.execute(ttl, (UNSET_VALUE, "forever", 1))
    equal(context.rows(f"SELECT TTL(a) FROM {table} WHERE id = 1"), [(None,)], "an unset TTL is none")


@check
def batches(context):
    table = context.table("k int, c int, v text, PRIMARY KEY (k, c)")
    insert = context.session.prepare(f"INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)")
    for kind in [BatchType.LOGGED, BatchType.UNLOGGED]:
        batch = BatchStatement(batch_type=kind)
        for c in range(20):
            batch.add(insert, (c % 3, c, str(kind)))
        batch.add(SimpleStatement(f"INSERT INTO {table} (k, c, v) VALUES (9, 9, 'simple')"))
        batch.add(SimpleStatement(f"DELETE FROM {table} WHERE k = 0 AND c = 0"))
        batch.add(SimpleStatement(f"INSERT INTO {table} (k, c, v) VALUES (%s, %s, %s)"), (8, 8, "values"))
        context.session.execute(batch)
        equal(sorted(context.rows(f"SELECT k, c FROM {table}")), sorted([(c % 3, c) for c in range(1, 20)] + [(8, 8), (9, 9)]), str(kind))
    context.run(f"BEGIN BATCH USING TIMESTAMP 5 INSERT INTO {table} (k, c, v) VALUES (20, 1, 'a'); INSERT INTO {table} (k, c, v) VALUES (20, 2, 'b') APPLY BATCH;",
                f"BEGIN UNLOGGED BATCH INSERT INTO {table} (k, c, v) VALUES (20, 3, 'c') USING TIMESTAMP 6 APPLY BATCH")
    equal(context.rows(f"SELECT c, WRITETIME(v) FROM {table} WHERE k = 20"), [(1, 5), (2, 5), (3, 6)])
    prepared = context.session.prepare(f"BEGIN BATCH INSERT INTO {table} (k, c, v) VALUES (?, 1, ?); UPDATE {table} SET v = ? WHERE k = ? AND c = 2; APPLY BATCH")
    context.session.execute(prepared, (30, "one", "two", 30))
    equal(context.rows(f"SELECT c, v FROM {table} WHERE k = 30"), [(1, "one"), (2, "two")])
    late = BatchStatement(batch_type=BatchType.UNLOGGED)
    late.add(insert, (40, 1, "insert"))
    late.add(SimpleStatement(f"DELETE FROM {table} WHERE k = 40 AND c = 1"))
    context.session.execute(late)
    equal(context.rows(f"SELECT v FROM {table} WHERE k = 40"), [], "at one timestamp the deletion wins")


@check
def lightweight_transactions(context):
    table = context.table("k int, c int, v text, n int, m map<text, int>, s int STATIC, PRIMARY KEY (k, c)")

    def columns(query, *values):
        result = context.session.execute(query, values or None)
        return dict(zip(result.column_names, list(result)[0]))

    insert = context.session.prepare(f"INSERT INTO {table} (k, c, v, n) VALUES (?, ?, ?, ?) IF NOT EXISTS")
    equal(columns(insert, 1, 1, "first", 1)["[applied]"], True)
    refused = columns(insert, 1, 1, "second", 2)
    equal((refused["[applied]"], refused["v"], refused["n"], refused["k"], refused["c"]), (False, "first", 1, 1, 1))
    update = context.session.prepare(f"UPDATE {table} SET v = ? WHERE k = ? AND c = ? IF n = ?")
    equal(columns(update, "x", 1, 1, 2), {"[applied]": False, "n": 1})
    equal(columns(update, "x", 1, 1, 1), {"[applied]": True})
    equal(columns(f"UPDATE {table} SET n = 5 WHERE k = 1 AND c = 1 IF v IN ('x', 'y') AND n < 3"), {"[applied]": True})
    equal(columns(f"UPDATE {table} SET n = 6 WHERE k = 1 AND c = 1 IF n != 5"), {"[applied]": False, "n": 5})
    equal(columns(f"UPDATE {table} SET n = 7 WHERE k = 1 AND c = 2 IF EXISTS"), {"[applied]": False})
    equal(context.rows(f"SELECT n FROM {table} WHERE k = 1 AND c = 2"), [])
    equal(columns(f"UPDATE {table} SET n = 7 WHERE k = 1 AND c = 2 IF n = null"), {"[applied]": True})
    equal(columns(f"UPDATE {table} SET m['a'] = 1 WHERE k = 1 AND c = 1 IF m['a'] = null"), {"[applied]": True})
    equal(columns(f"UPDATE {table} SET m['a'] = 2 WHERE k = 1 AND c = 1 IF m['a'] = 1"), {"[applied]": True})
    equal(columns(f"UPDATE {table} SET s = 1 WHERE k = 1 IF s = null"), {"[applied]": True})
    equal(columns(f"DELETE FROM {table} WHERE k = 1 AND c = 2 IF EXISTS"), {"[applied]": True})
    equal(columns(f"DELETE FROM {table} WHERE k = 1 AND c = 2 IF EXISTS"), {"[applied]": False})
    equal(columns(f"BEGIN BATCH INSERT INTO {table} (k, c, v) VALUES (2, 1, 'a') IF NOT EXISTS; INSERT INTO {table} (k, c, v) VALUES (2, 2, 'b'); APPLY BATCH"), {"[applied]": True})
    again = columns(f"BEGIN BATCH INSERT INTO {table} (k, c, v) VALUES (2, 1, 'a') IF NOT EXISTS; INSERT INTO {table} (k, c, v) VALUES (2, 3, 'c'); APPLY BATCH")
    equal(again["[applied]"], False)
    equal(context.rows(f"SELECT c FROM {table} WHERE k = 2"), [(1,), (2,)], "a refused batch writes nothing")
    serial = SimpleStatement(f"SELECT v FROM {table} WHERE k = 1 AND c = 1", consistency_level=ConsistencyLevel.SERIAL)
    equal(context.rows(serial), [("x",)])


@check
def contended_transactions(context):
    """One of many at the same time wins, and all are told so."""
    table = context.table("k int PRIMARY KEY, n int")
    futures = [context.session.execute_async(f"INSERT INTO {table} (k, n) VALUES (1, {each}) IF NOT EXISTS") for each in range(60)]
    winners = [each for each, future in enumerate(futures) if future.result().one()[0]]
    equal(len(winners), 1, f"winners {winners}")
    equal(context.rows(f"SELECT n FROM {table} WHERE k = 1"), [(winners[0],)])


@check
def consistency_levels(context):
    table = context.table("id int PRIMARY KEY, v int")
    for level in ["ANY", "ONE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE"]:
        context.session.execute(SimpleStatement(f"INSERT INTO {table} (id, v) VALUES (1, 1)", consistency_level=getattr(ConsistencyLevel, level)))
    for level in ["ONE", "QUORUM", "ALL", "LOCAL_QUORUM", "LOCAL_ONE", "SERIAL", "LOCAL_SERIAL"]:
        equal(context.rows(SimpleStatement(f"SELECT v FROM {table} WHERE id = 1", consistency_level=getattr(ConsistencyLevel, level))), [(1,)], level)


@check
def replicas_that_are_not_there(context):
    """Of three replicas one is there: it answers at ONE, and a quorum is not to be had."""
    keyspace = f"{context.keyspace}_three"
    context.run(f"DROP KEYSPACE IF EXISTS {keyspace}")
    context.run(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 3}}")
    context.run(f"CREATE TABLE {keyspace}.t (id int PRIMARY KEY, v int)")

    def ask(text, level):
        statement = SimpleStatement(text, consistency_level=getattr(ConsistencyLevel, level), retry_policy=FallthroughRetryPolicy())
        return context.rows(statement)

    insert, select = f"INSERT INTO {keyspace}.t (id, v) VALUES (1, 1)", f"SELECT v FROM {keyspace}.t WHERE id = 1"
    for level in ["ANY", "ONE", "LOCAL_ONE"]:
        ask(insert, level)
    equal([ask(select, level) for level in ["ONE", "LOCAL_ONE"]], [[(1,)], [(1,)]])
    for text, level, required in [(insert, "TWO", 2), (insert, "QUORUM", 2), (select, "LOCAL_QUORUM", 2), (select, "ALL", 3),
                                  (f"{insert} IF NOT EXISTS", "ONE", 2)]:
        try:
            ask(text, level)
        except Unavailable as error:
            equal((error.required_replicas, error.alive_replicas), (required, 1), f"{level}: {text}")
        else:
            raise Failed(f"{level} was answered: {text}")
    context.run(f"DROP KEYSPACE {keyspace}")


@check
def functions_of_time_and_ids(context):
    table = context.table("id uuid PRIMARY KEY, t timeuuid, d date, n int")
    context.run(f"INSERT INTO {table} (id, t, n) VALUES (uuid(), now(), 3)")
    key, when = context.rows(f"SELECT id, t FROM {table}")[0]
    equal((key.version, when.version), (4, 1))
    other = context.session.prepare(f"SELECT n FROM {table} WHERE id = ?")
    equal(context.rows(other, key), [(3,)])
    equal(context.rows(other, uuid.uuid4()), [])


@check
def errors_by_class(context):
    table = context.table("k int, c int, v text, PRIMARY KEY (k, c)")
    run = context.session.execute
    raises(SyntaxException, lambda: run("SELEC * FROM x"), "line 1")
    raises(SyntaxException, lambda: run(f"SELECT * FROM {table} WHERE"))
    raises(SyntaxException, lambda: run(f"INSERT INTO {table} (k, c, v) VALUES (1, 2, 'unclosed)"))
    raises(InvalidRequest, lambda: run("SELECT * FROM no_such_table"), "no_such_table")
    raises(InvalidRequest, lambda: run("SELECT * FROM no_such_keyspace.t"), "no_such_keyspace")
    raises(InvalidRequest, lambda: run(f"SELECT nothing FROM {table}"), "nothing")
    raises(InvalidRequest, lambda: run(f"SELECT * FROM {table} WHERE v = 'x'"), "ALLOW FILTERING")
    raises(InvalidRequest, lambda: run(f"SELECT * FROM {table} WHERE c = 1"), "ALLOW FILTERING")
    raises(InvalidRequest, lambda: run(f"INSERT INTO {table} (k, v) VALUES (1, 'x')"), "c")
    raises(InvalidRequest, lambda: run(f"INSERT INTO {table} (k, c, v) VALUES ('text', 1, 'x')"))
    raises(InvalidRequest, lambda: run(f"INSERT INTO {table} (k, c, v) VALUES (99999999999, 1, 'x')"))
    raises(InvalidRequest, lambda: run(f"INSERT INTO {table} (k, c, v) VALUES (null, 1, 'x')"))
    raises(InvalidRequest, lambda: run(f"UPDATE {table} SET c = 2 WHERE k = 1 AND c = 1"))
    raises(InvalidRequest, lambda: run(f"UPDATE {table} SET v = 'x' WHERE k = 1"))
    raises(InvalidRequest, lambda: run(f"SELECT * FROM {table} WHERE k = 1 ORDER BY v"))
    raises(InvalidRequest, lambda: run(f"SELECT * FROM {table} ORDER BY c"))
    raises(InvalidRequest, lambda: run(f"SELECT * FROM {table} LIMIT 0"))
    raises(InvalidRequest, lambda: run(f"INSERT INTO {table} (k, c) VALUES (1, 1) USING TTL -1"))
    raises(InvalidRequest, lambda: context.session.prepare(f"SELECT * FROM {table} WHERE nothing = ?"))
    raises(SyntaxException, lambda: context.session.prepare(f"SELECT FROM {table}"))
    raises(InvalidRequest, lambda: run("DROP TABLE no_such_table"))
    raises(InvalidRequest, lambda: run("USE no_such_keyspace"), "no_such_keyspace")
    raises((ConfigurationException, InvalidRequest), lambda: run("CREATE TABLE bad (k int PRIMARY KEY) WITH gc_grace_seconds = -5"))
    raises((ConfigurationException, SyntaxException), lambda: run("CREATE TABLE bad (k int PRIMARY KEY) WITH no_such_option = 5"))
    raises((InvalidRequest, ConfigurationException), lambda: run("CREATE TABLE bad (k int PRIMARY KEY, l list<no_such_type>)"))
    raises(ConfigurationException, lambda: run("CREATE KEYSPACE bad WITH replication = {'class': 'NoSuchStrategy', 'replication_factor': 1}"))
    error = raises(AlreadyExists, lambda: run(f"CREATE TABLE {table} (k int PRIMARY KEY)"))
    equal((error.keyspace, error.table), (context.keyspace, table))
    error = raises(AlreadyExists, lambda: run(f"CREATE KEYSPACE {context.keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"))
    equal((error.keyspace, error.table or None), (context.keyspace, None))
    run(f"CREATE TABLE IF NOT EXISTS {table} (k int PRIMARY KEY)")
    run("DROP TABLE IF EXISTS no_such_table")
    equal(context.rows(f"SELECT * FROM {table}"), [], "the connection is as good as before")


@check
def unknown_prepared_statement(context):
    """A server that does not know an id says so, and the driver prepares the statement anew."""
    table = context.table("id int PRIMARY KEY, v int")
    prepared = context.session.prepare(f"SELECT v FROM {table} WHERE id = ?")
    real = prepared.query_id
    prepared.query_id = b"\7" * 16
    context.cluster._prepared_statements[prepared.query_id] = prepared
    try:
        context.session.execute(prepared, (1,))
    except ServerError:
        raise
    except Exception as error:  # noqa: BLE001  (the drivers name it differently)
        holds("mismatch" in str(error), f"the driver was not told that the statement is unknown: {error}")
        return
    finally:
        context.cluster._prepared_statements.pop(b"\7" * 16, None)
    if prepared.query_id != real:
        raise Failed("an unknown id was executed")
