"""Reading and writing rows: paging, slices, static columns, collections, counters, TTLs, ring ranges, many requests at once."""

import time

from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import SimpleStatement

from harness import check, equal, holds

ROWS = 300


def wide(context):
    """A table with one partition of ROWS rows and 40 of three."""
    table = context.table("k int, c int, v text, PRIMARY KEY (k, c)")
    insert = context.session.prepare(f"INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)")
    rows = [(0, c, f"row {c}") for c in range(ROWS)] + [(k, c, "small") for k in range(1, 41) for c in range(3)]
    for success, result in execute_concurrent_with_args(context.session, insert, rows, concurrency=100):
        holds(success, f"insert: {result}")
    return table


def paged(context, query, fetch_size):
    """All rows, and the sizes of the pages they came in."""
    result = context.session.execute(SimpleStatement(query, fetch_size=fetch_size))
    rows, pages = [], []
    while True:
        page = list(result.current_rows)
        pages.append(len(page))
        rows += page
        if not result.has_more_pages:
            return rows, pages
        holds(len(pages) < 3 * ROWS, "paging does not end")
        result.fetch_next_page()


@check
def paging_of_a_partition(context):
    table = wide(context)
    forward = [(c, f"row {c}") for c in range(ROWS)]
    for fetch_size in [1, 7, 100, ROWS - 1, ROWS, ROWS + 1, 5000]:
        for order, want in [("ASC", forward), ("DESC", forward[::-1])]:
            rows, pages = paged(context, f"SELECT c, v FROM {table} WHERE k = 0 ORDER BY c {order}", fetch_size)
            equal(rows, want, f"page of {fetch_size}, {order}")
            holds(all(size <= fetch_size for size in pages), f"pages of {fetch_size} have {pages}")
            holds(all(size == fetch_size for size in pages[:-1]), f"pages of {fetch_size} have {pages}")
    rows, _ = paged(context, f"SELECT c FROM {table} WHERE k = 0 AND c > 50 AND c <= 250 LIMIT 150", 40)
    equal([row[0] for row in rows], list(range(51, 201)), "slice with a limit")


@check
def paging_of_a_table(context):
    table = wide(context)
    whole, _ = paged(context, f"SELECT k, c FROM {table}", 5000)
    equal(sorted(whole), [(0, c) for c in range(ROWS)] + [(k, c) for k in range(1, 41) for c in range(3)])
    for fetch_size in [3, 64, 419, 420, 421]:
        rows, _ = paged(context, f"SELECT k, c FROM {table}", fetch_size)
        equal(rows, whole, f"page of {fetch_size}")
    keys, _ = paged(context, f"SELECT DISTINCT k FROM {table}", 7)
    equal(sorted(keys), [(k,) for k in range(41)], "DISTINCT")
    rows, _ = paged(context, f"SELECT k, c FROM {table} PER PARTITION LIMIT 2", 5)
    equal(sorted(rows), [(k, c) for k in range(41) for c in range(2)], "PER PARTITION LIMIT")
    rows, _ = paged(context, f"SELECT k, c FROM {table} PER PARTITION LIMIT 2 LIMIT 31", 4)
    equal(len(rows), 31, "PER PARTITION LIMIT and LIMIT")
    equal(context.rows(f"SELECT COUNT(*) FROM {table}"), [(ROWS + 120,)])
    rows, _ = paged(context, f"SELECT COUNT(*) FROM {table}", 10)
    equal(rows, [(ROWS + 120,)], "COUNT(*) in pages")
    rows, _ = paged(context, f"SELECT k, c FROM {table} WHERE v = 'small' ALLOW FILTERING", 10)
    equal(len(rows), 120, "filtered")


@check
def paging_goes_on_elsewhere(context):
    """The paging state of one session works in another, and is not tied to the page size."""
    table = wide(context)
    first = context.session.execute(SimpleStatement(f"SELECT c FROM {table} WHERE k = 0", fetch_size=10))
    state = first.paging_state
    equal([row[0] for row in first.current_rows], list(range(10)))
    other = context.new_cluster()
    try:
        session = other.connect(context.keyspace)
        second = session.execute(SimpleStatement(f"SELECT c FROM {table} WHERE k = 0", fetch_size=25), paging_state=state)
        equal([row[0] for row in second.current_rows], list(range(10, 35)))
    finally:
        other.shutdown()
    prepared = context.session.prepare(f"SELECT c FROM {table} WHERE k = ?")
    prepared.fetch_size = 13
    equal([row[0] for row in context.session.execute(prepared, (0,))], list(range(ROWS)), "prepared")


@check
def slices_and_relations(context):
    table = context.table("k int, a int, b text, v int, PRIMARY KEY (k, a, b)")
    insert = context.session.prepare(f"INSERT INTO {table} (k, a, b, v) VALUES (?, ?, ?, ?)")
    for a in range(5):
        for b in "xyz":
            context.session.execute(insert, (1, a, b, a))

    def select(where, *values):
        return [f"{a}{b}" for a, b in context.rows(f"SELECT a, b FROM {table} WHERE k = 1 AND {where}", *values)]

    equal(select("a = 2"), ["2x", "2y", "2z"])
    equal(select("a = 2 AND b > 'x'"), ["2y", "2z"])
    equal(select("a IN (1, 3) AND b = 'y'"), ["1y", "3y"])
    equal(select("(a, b) > (3, 'y')"), ["3z", "4x", "4y", "4z"])
    equal(select("(a, b) >= (1, 'z') AND (a) < (2)"), ["1z"])
    equal(select("(a, b) IN ((0, 'x'), (4, 'z'))"), ["0x", "4z"])
    equal(select("a > 3 ORDER BY a DESC, b DESC"), ["4z", "4y", "4x"])
    equal(select("a > 1 LIMIT 2"), ["2x", "2y"])
    prepared = context.session.prepare(f"SELECT a, b FROM {table} WHERE k = ? AND a IN ? AND b >= ? LIMIT ?")
    equal(context.rows(prepared, 1, [0, 4], "y", 3), [(0, "y"), (0, "z"), (4, "y")])
    equal(context.rows(f"SELECT a, b FROM {table} WHERE k IN (1, 2) AND a = 0 AND b = 'x'"), [(0, "x")])
    equal(context.rows(f"SELECT a, b FROM {table} WHERE k = 1 AND v = 4 AND b = 'y' ALLOW FILTERING"), [(4, "y")])
    context.run(f"DELETE FROM {table} WHERE k = 1 AND a > 0 AND a <= 3", f"DELETE FROM {table} WHERE k = 1 AND a = 4 AND b = 'x'")
    equal(select("a >= 0"), ["0x", "0y", "0z", "4y", "4z"], "after deletions")
    context.run(f"DELETE FROM {table} WHERE k = 1")
    equal(context.rows(f"SELECT * FROM {table}"), [])


@check
def static_columns(context):
    table = context.table("k int, c int, s text STATIC, v int, PRIMARY KEY (k, c)")
    context.run(f"INSERT INTO {table} (k, s) VALUES (1, 'only static')")
    equal(context.rows(f"SELECT k, c, s, v FROM {table} WHERE k = 1"), [(1, None, "only static", None)])
    context.run(f"INSERT INTO {table} (k, c, v) VALUES (1, 1, 10)", f"INSERT INTO {table} (k, c, v, s) VALUES (1, 2, 20, 'changed')")
    equal(context.rows(f"SELECT k, c, s, v FROM {table} WHERE k = 1"), [(1, 1, "changed", 10), (1, 2, "changed", 20)])
    equal(context.rows(f"SELECT DISTINCT k, s FROM {table}"), [(1, "changed")])
    context.run(f"UPDATE {table} SET s = 'by update' WHERE k = 2", f"DELETE s FROM {table} WHERE k = 1")
    equal(context.rows(f"SELECT c, s FROM {table} WHERE k = 1 AND c = 2"), [(2, None)])
    equal(context.rows(f"SELECT s FROM {table} WHERE k = 2"), [("by update",)])


@check
def collections_change_in_place(context):
    table = context.table("id int PRIMARY KEY, l list<text>, s set<int>, m map<text, int>")

    def value(column):
        got = context.rows(f"SELECT {column} FROM {table} WHERE id = 1")[0][0]
        return None if got is None else dict(got) if column.startswith("m") and not column.endswith("]") else sorted(got) if column == "s" else got

    context.run(f"INSERT INTO {table} (id, l, s, m) VALUES (1, ['b'], {{2}}, {{'b': 2}})")
    context.run(f"UPDATE {table} SET l = l + ['c', 'd'], s = s + {{1, 3}}, m = m + {{'a': 1, 'c': 3}} WHERE id = 1", f"UPDATE {table} SET l = ['z', 'a'] + l WHERE id = 1")
    equal(value("l"), ["z", "a", "b", "c", "d"])
    equal(value("s"), [1, 2, 3])
    equal(value("m"), {"a": 1, "b": 2, "c": 3})
    context.run(f"UPDATE {table} SET l[0] = 'y', m['b'] = 20, s = s - {{2, 9}} WHERE id = 1", f"DELETE l[1], m['a'] FROM {table} WHERE id = 1")
    equal(value("l"), ["y", "b", "c", "d"])
    equal(value("m"), {"b": 20, "c": 3})
    equal(value("s"), [1, 3])
    context.run(f"UPDATE {table} SET l = l - ['b', 'd'], m = m - {{'c'}} WHERE id = 1")
    equal(value("l"), ["y", "c"])
    equal(value("m"), {"b": 20})
    equal(value("m['b']"), 20)
    context.run(f"UPDATE {table} SET l = [], s = {{}}, m = {{}} WHERE id = 1")
    equal([value("l"), value("s"), value("m")], [None, None, None], "empty collections are null")
    prepared = context.session.prepare(f"UPDATE {table} SET l = l + ?, s = s + ?, m[?] = ? WHERE id = ?")
    context.session.execute(prepared, (["q"], {5}, "k", 6, 1))
    equal([value("l"), value("s"), value("m")], [["q"], [5], {"k": 6}])
    equal(context.rows(f"SELECT id FROM {table} WHERE s CONTAINS 5 ALLOW FILTERING"), [(1,)])
    equal(context.rows(f"SELECT id FROM {table} WHERE m CONTAINS KEY 'k' ALLOW FILTERING"), [(1,)])


@check
def counters(context):
    table = context.table("k int, c text, n counter, m counter, PRIMARY KEY (k, c)")
    add = context.session.prepare(f"UPDATE {table} SET n = n + ? WHERE k = ? AND c = ?")
    for success, result in execute_concurrent_with_args(context.session, add, [(each, 1, "a") for each in range(100)], concurrency=20):
        holds(success, f"counter update: {result}")
    context.run(f"UPDATE {table} SET n = n - 50, m = m + 1 WHERE k = 1 AND c = 'a'", f"UPDATE {table} SET m += 2 WHERE k = 1 AND c = 'b'")
    equal(context.rows(f"SELECT c, n, m FROM {table} WHERE k = 1"), [("a", 4900, 1), ("b", None, 2)])
    context.run(f"BEGIN COUNTER BATCH UPDATE {table} SET n = n + 1 WHERE k = 2 AND c = 'x'; UPDATE {table} SET n = n + 2 WHERE k = 3 AND c = 'x'; APPLY BATCH")
    equal(context.rows(f"SELECT k, n FROM {table} WHERE k IN (2, 3)"), [(2, 1), (3, 2)])
    context.run(f"DELETE n FROM {table} WHERE k = 1 AND c = 'a'")
    equal(context.rows(f"SELECT n, m FROM {table} WHERE k = 1 AND c = 'a'"), [(None, 1)])


@check
def time_to_live_and_write_time(context):
    table = context.table("id int PRIMARY KEY, a text, b text")
    context.run(f"INSERT INTO {table} (id, a) VALUES (1, 'x') USING TIMESTAMP 1234567 AND TTL 1000", f"UPDATE {table} USING TIMESTAMP 7654321 SET b = 'y' WHERE id = 1")
    writetime_a, ttl_a, writetime_b, ttl_b = context.rows(f"SELECT WRITETIME(a), TTL(a), WRITETIME(b), TTL(b) FROM {table} WHERE id = 1")[0]
    equal((writetime_a, writetime_b, ttl_b), (1234567, 7654321, None))
    holds(990 <= ttl_a <= 1000, f"ttl {ttl_a}")
    context.run(f"UPDATE {table} USING TIMESTAMP 1234566 SET a = 'older' WHERE id = 1")
    equal(context.rows(f"SELECT a FROM {table} WHERE id = 1"), [("x",)], "an older write loses")
    prepared = context.session.prepare(f"INSERT INTO {table} (id, a, b) VALUES (?, ?, ?) USING TTL ? AND TIMESTAMP ?")
    context.session.execute(prepared, (2, "short", "lived", 1, int(time.time() * 1e6)))
    equal(context.rows(f"SELECT a, b FROM {table} WHERE id = 2"), [("short", "lived")])
    context.run(f"UPDATE {table} USING TTL 1 SET a = 'gone soon' WHERE id = 3")
    time.sleep(2.1)
    equal(context.rows(f"SELECT a, b FROM {table} WHERE id IN (2, 3)"), [], "expired")
    before = int(time.time() * 1e6)
    context.run(f"INSERT INTO {table} (id, a) VALUES (4, 'now')")
    written = context.rows(f"SELECT WRITETIME(a) FROM {table} WHERE id = 4")[0][0]
    holds(before - 1e6 <= written <= time.time() * 1e6 + 1e6, f"written at {written}")
    context.run(f"DELETE FROM {table} USING TIMESTAMP 1 WHERE id = 4")
    equal(len(context.rows(f"SELECT a FROM {table} WHERE id = 4")), 1, "a deletion in the past")
    defaults = context.table("id int PRIMARY KEY, a text", "WITH default_time_to_live = 500")
    context.run(f"INSERT INTO {defaults} (id, a) VALUES (1, 'x')")
    ttl = context.rows(f"SELECT TTL(a) FROM {defaults} WHERE id = 1")[0][0]
    holds(490 <= ttl <= 500, f"default ttl {ttl}")


@check
def nulls_and_deletions(context):
    table = context.table("id int PRIMARY KEY, a text, b text")
    context.run(f"INSERT INTO {table} (id, a, b) VALUES (1, 'x', 'y')", f"INSERT INTO {table} (id, a) VALUES (1, null)")
    equal(context.rows(f"SELECT id, a, b FROM {table} WHERE id = 1"), [(1, None, "y")])
    context.run(f"DELETE b FROM {table} WHERE id = 1")
    equal(context.rows(f"SELECT id, a, b FROM {table} WHERE id = 1"), [(1, None, None)], "INSERT keeps the row")
    context.run(f"UPDATE {table} SET a = 'only' WHERE id = 2", f"DELETE a FROM {table} WHERE id = 2")
    equal(context.rows(f"SELECT id FROM {table} WHERE id = 2"), [], "UPDATE does not keep the row")
    context.run(f"INSERT INTO {table} (id) VALUES (3)", f"TRUNCATE {table}")
    equal(context.rows(f"SELECT * FROM {table}"), [])
    context.run(f"INSERT INTO {table} (id, a) VALUES (4, 'after')")
    equal(context.rows(f"SELECT id, a FROM {table}"), [(4, "after")])


@check
def ranges_of_the_ring(context):
    table = wide(context)
    select = context.session.prepare(f"SELECT DISTINCT k, token(k) FROM {table} WHERE token(k) > ? AND token(k) <= ?")
    bounds = [-(2**63) + step * 2**61 for step in range(8)] + [2**63 - 1]
    found = []
    for begin, end in zip(bounds, bounds[1:]):
        for key, token in context.rows(select, begin, end):
            holds(begin < token <= end, f"token {token} of {key} is not in ({begin}, {end}]")
            found.append((token, key))
    equal(sorted(key for _, key in found), list(range(41)))
    equal([token for token, _ in found], sorted(token for token, _ in found), "in the order of the ring")
    equal(context.rows(f"SELECT token(k) FROM {table} WHERE k = 1 LIMIT 1"), [(-4069959284402364209,)], "Murmur3 of 1")
    token_map = context.cluster.metadata.token_map
    holds(token_map is not None and len(token_map.ring) >= 1, "the driver knows the ring")


@check
def many_requests_at_once(context):
    table = context.table("id int PRIMARY KEY, v text")
    insert = context.session.prepare(f"INSERT INTO {table} (id, v) VALUES (?, ?)")
    select = context.session.prepare(f"SELECT v FROM {table} WHERE id = ?")
    count = 2000
    for success, result in execute_concurrent_with_args(context.session, insert, [(each, f"v{each}") for each in range(count)], concurrency=500):
        holds(success, f"insert: {result}")
    results = execute_concurrent_with_args(context.session, select, [(each,) for each in range(count)], concurrency=500)
    for each, (success, result) in enumerate(results):
        holds(success, f"select: {result}")
        equal(list(result), [(f"v{each}",)], "each answer belongs to its request")
