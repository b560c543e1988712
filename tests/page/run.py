"""The page of a node in Chromium: figures, layout, keys, console, and what it asks.

Starts a node with some tables, opens each section in light and dark, wide (1400 pixels) and on a phone (390), and asserts that

- the figures agree with the admin API and the metrics;
- nothing is fetched from elsewhere, no request fails, and the browser's console stays empty;
- nothing is wider than the window, and nothing moves once it is shown;
- the keys work; a hidden or paused page asks nothing; the console runs what it may and refuses what it may not, also to other pages;
- the node spends less than 1 % of a core on the open page (printed, asserted with a release build only).

    run.sh                          the tests, with a development build
    run.sh --profile release
    run.sh --screenshots DIR        also takes pictures: idle, load, major compaction, overload
    run.sh --only idle              one state of: idle load compaction overload
"""

import argparse
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "drivers"))
import cdp  # noqa: E402
import nodes  # noqa: E402

SECTIONS = ["overview", "tables", "compactions", "memory", "disk", "reads", "statements", "console"]
WIDE, PHONE = (1400, 900), (390, 844)
VIEWS = [(size, is_dark) for size in (WIDE, PHONE) for is_dark in (False, True)]
# The page asks every two seconds.
ROUND_S = 2.2
# A release build may spend this share of a core on an open page.
CPU_SHARE_MAX = 0.01

SCHEMA = """
CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
CREATE TABLE shop.orders (customer int, at int, text text, PRIMARY KEY (customer, at))
    WITH compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 1};
CREATE TABLE shop.events (source text, at int, value double, PRIMARY KEY (source, at))
    WITH compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1};
CREATE TABLE shop.carts (id int PRIMARY KEY, items list<text>) WITH gc_grace_seconds = 60;
"""

checks = 0


def check(condition, text):
    global checks
    checks += 1
    if not condition:
        raise AssertionError(text)


def close(shown, truth, tolerance, what):
    check(abs(shown - truth) <= tolerance * max(abs(truth), 1e-9) + 1e-9, f"{what}: the page shows {shown}, the node has {truth}")


UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "k": 1e3, "M": 1e6, "G": 1e9, "µs": 1e-6, "ms": 1e-3, "s": 1, "%": 1}


def number(text):
    """The value of a figure as the page writes it, such as `1.25 MiB/s`."""
    found = re.match(r"([\d.]+)\s*([^\s/]*)", text)
    if not found or found[2] not in UNITS:
        raise AssertionError(f"{text!r} is no figure")
    return float(found[1]) * UNITS[found[2]]


def parse_metrics(text):
    """Sums of the Prometheus text by name, and by name and labels."""
    sums = {}
    for line in text.splitlines():
        if found := re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$", line):
            sums[found[1]] = sums.get(found[1], 0) + float(found[3])
    return sums


class Tested:
    """A node, a tab with its page, and what the test asks the node itself."""

    def __init__(self, node, page, pictures):
        self.node, self.page, self.pictures = node, page, pictures
        self.origin = f"http://127.0.0.1:{node.api_port}"

    def api(self, path):
        with urllib.request.urlopen(self.origin + path, timeout=30) as answer:
            return json.load(answer)

    def metrics(self):
        with urllib.request.urlopen(self.origin + "/metrics", timeout=30) as answer:
            return parse_metrics(answer.read().decode())

    def post(self, path, body=None, headers=None):
        """The status of a POST, and its body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.origin + path, data=data or b"", method="POST", headers={"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def go(self, section):
        """Opens a section by its key and waits for a round."""
        # Keys that are typed in a field are text.
        self.page.run("document.activeElement.blur()")
        self.page.key(str(SECTIONS.index(section) + 1))
        self.page.wait(f"location.hash === '#{section}' && document.querySelector('main').children.length > 0")
        self.rounds(1)

    def rounds(self, count):
        """Waits until the page has asked so often and shown the answers."""
        before = self.page.run("rounds")
        self.page.wait(f"rounds >= {before + count}", 15 + 4 * count)

    def tiles(self):
        return self.page.run("Object.fromEntries([...document.querySelectorAll('dt')].map(of => [of.textContent, of.nextSibling.textContent]))")

    def rows(self, title):
        """The cells of the table below a heading that begins so."""
        return self.page.run(f"""[...document.querySelectorAll('h2')].filter(of => of.textContent.startsWith({json.dumps(title)}))
            .flatMap(of => [...of.closest('.card').querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.textContent)))""")

    def points(self, title, since_s):
        """What a chart has recorded: the mean of the sums of its lines since then."""
        return self.page.run(f"""(() => {{
            const points = Chart.all.find(of => of.root.querySelector('h2').textContent === {json.dumps(title)}).points.filter(of => of.time_s > {since_s});
            return points.reduce((sum, of) => sum + [...of.values.values()].reduce((a, b) => a + b, 0), 0) / points.length;
        }})()""")


# --- the tests -------------------------------------------------------------------------------------------------------------------

def fill(node):
    """Tables with all kinds of content, the same every time."""
    cql(node, SCHEMA)
    for part in range(6):
        statements = []
        for customer in range(part * 20, part * 20 + 40):
            statements += [f"INSERT INTO shop.orders (customer, at, text) VALUES ({customer}, {at}, '{'order ' * 20}');" for at in range(20)]
        statements += [f"INSERT INTO shop.events (source, at, value) VALUES ('sensor {at % 5}', {part * 100 + at}, 0.5);" for at in range(100)]
        statements += [f"INSERT INTO shop.carts (id, items) VALUES ({at}, ['a', 'b']);" for at in range(part * 10, part * 10 + 50)]
        statements += [f"DELETE FROM shop.carts WHERE id = {at};" for at in range(part * 10)]
        # One partition above the threshold of large ones.
        statements += [f"INSERT INTO shop.orders (customer, at, text) VALUES (7, {1000 + part * 400 + at}, '{'large ' * 40}');" for at in range(400)]
        cql(node, "\n".join(statements))
        node.nodetool("flush")


def cql(node, text):
    command = [node.binary, "shell", node.host, str(node.port)]
    done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=300)
    if done.returncode != 0 or "rror" in done.stderr:
        raise AssertionError(f"{text[:200]}: {done.stdout}{done.stderr}")
    return done.stdout


def stress(node, *words):
    """A load in the background."""
    command = [node.binary, "stress", *words, "-node", node.host, "-port", f"native={node.port}", "-log", "level=minimal"]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


OVERFLOW = """(() => {
    const wide = innerWidth;
    const isCut = of => { for (let up = of.parentElement; up; up = up.parentElement) if (getComputedStyle(up).overflowX !== 'visible') return true; return false; };
    const all = [...document.body.querySelectorAll('*')].filter(of => of.getBoundingClientRect().right > wide + 1 && !isCut(of));
    return [document.documentElement.scrollWidth, wide, all.slice(0, 5).map(of => `${of.tagName}.${of.className} ${of.textContent.slice(0, 40)}`)];
})()"""


def sections_in_all_views(tested):
    """Each section in each view: no overflow, no jump, no empty card."""
    page = tested.page
    for size, is_dark in VIEWS:
        page.size(*size, is_dark)
        page.open(f"{tested.origin}/")
        page.run("""new PerformanceObserver(list => list.getEntries().forEach(of => { if (!of.hadRecentInput) shifts.push(of.value); })).observe({ type: 'layout-shift' });
            var shifts = [];""")
        for section in SECTIONS:
            tested.go(section)
            where = f"{section}, {size[0]} wide, {'dark' if is_dark else 'light'}"
            width, window, wide = page.run(OVERFLOW)
            check(width <= window and not wide, f"{where}: {width} wide; beyond the window: {wide}")
            page.run("shifts.length = 0")
            tested.rounds(1)
            moved = page.run("shifts.reduce((a, b) => a + b, 0)")
            check(moved < 0.02, f"{where}: the content moves while it is refreshed ({moved})")
            empty = page.run("[...document.querySelectorAll('.card')].filter(of => of.textContent.trim() === of.querySelector('h2')?.textContent.trim() && !of.querySelector('canvas, svg')).map(of => of.textContent)")
            check(not empty, f"{where}: nothing but a heading: {empty}")
            check(page.run("document.getElementById('node').className") == "", f"{where}: {page.run('state.textContent')}")
            colors = page.run("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
            light = [sum(map(int, re.findall(r"\d+", color)[:3])) for color in colors]
            check((light[0] < light[1]) == is_dark, f"{where}: colors {colors}")
            if tested.pictures:
                page.screenshot(tested.pictures / f"idle-{section}-{'phone' if size == PHONE else 'wide'}-{'dark' if is_dark else 'light'}.png")


def figures(tested):
    """The figures of an idle node, which does not change while it is compared."""
    page, api = tested.page, tested.api
    page.size(*WIDE, False)
    # The connection of the program that filled the tables ends soon.
    end = time.monotonic() + 30
    while api("/v1/info")["connections"] and time.monotonic() < end:
        time.sleep(0.2)
    tested.go("overview")
    tested.rounds(2)
    info, tiles = api("/v1/info"), tested.tiles()
    for tile, field, tolerance in [("Data", "load_bytes", 0.01), ("Physical memory", "resident_bytes", 0.05), ("Memtables", "memtable_bytes", 0.05), ("Commit log", "commitlog_bytes", 0.01)]:
        close(number(tiles[tile]), info[field], tolerance, tile)
    check(tiles["Mode"] == "NORMAL" and number(tiles["Clients"]) == info["connections"], f"{tiles}")
    metrics = tested.metrics()
    close(number(tiles["Stalls of shards"]), metrics["scylla_reactor_stalls_count"], 0.01, "stalls")
    close(sum(number(row[1]) for row in tested.rows("Stalls since") if len(row) == 3), metrics["scylla_reactor_stalls_count"], 0.02, "stalls by group")

    tested.go("tables")
    truth = {f"{of['keyspace']}.{of['table']}": of for of in api("/v1/tables") if not of["keyspace"].startswith("system")}
    rows = {row[0]: row for row in tested.rows("Tables")}
    check(set(rows) == set(truth) and len(truth) >= 3, f"tables {set(rows)} and {set(truth)}")
    for name, row in rows.items():
        of = truth[name]
        close(number(row[1]), of["space_used_live"], 0.01, f"{name}: disk")
        check(int(row[2]) == of["sstable_count"], f"{name}: {row[2]} SSTables, {of['sstable_count']}")
        close(number(row[4]), of["reads"]["count"], 0.01, f"{name}: reads")
        close(number(row[6]), of["writes"]["count"], 0.01, f"{name}: writes")
        if of["write_amplification"]:
            close(float(row[9]), of["write_amplification"], 0.01, f"{name}: write amplification")
        close(number(row[12]), of["partition_max_bytes"], 0.01, f"{name}: largest partition")
    # The chart has what the list has.
    page.run("tables.chosen = 'shop.orders'")
    tested.rounds(1)
    drawn = page.run("Object.fromEntries(amplification.view(amplification.points.at(-1).values))")
    close(drawn["write"], truth["shop.orders"]["write_amplification"], 0.01, "chart of the write amplification")
    if truth["shop.orders"]["space_amplification"]:
        close(drawn["space"], truth["shop.orders"]["space_amplification"], 0.05, "chart of the space amplification")
    else:
        check(drawn["space"] is None, f"the space amplification is unknown, and the chart has {drawn['space']}")
    boxes = page.run("document.querySelectorAll('main svg rect').length")
    check(boxes == truth["shop.orders"]["sstable_count"], f"{boxes} boxes for {truth['shop.orders']['sstable_count']} SSTables")
    large, shown = api("/v1/largedata"), tested.rows("Large partitions")
    check(large and len(shown) == min(50, len(large)), f"{len(shown)} of {len(large)} large items")
    check(shown[0][0] == "shop.orders" and shown[0][2] == "7", f"{shown[0]}")
    close(number(shown[0][4]), large[0]["bytes"], 0.01, "the largest partition")

    tested.go("compactions")
    listed, past = api("/v1/compactions"), api("/v1/compactions/history")
    title = page.run("document.querySelector('main h2').textContent")
    check(f"completed {listed['completed']}, failed {listed['failed']}" in title, title)
    rows = tested.rows("Ended")
    check(len(rows) == min(60, len(past)) and (rows[0][3] == past[-1]["reason"] or re.search(r"\d us", past[-1]["reason"])), f"{rows[:1]} and {past[-1:]}")
    close(number(rows[0][5]), past[-1]["bytes_in"], 0.01, "bytes of the last compaction")
    close(number(tested.tiles()["Backlog: to be rewritten"]), tested.metrics()["scylla_compaction_manager_backlog"], 0.01, "backlog")

    tested.go("memory")
    memory, rows = api("/v1/memory"), tested.rows("By shard")
    classes = [of for shard in memory["shards"] for of in shard]
    check([row[0] for row in rows] == [of["class"] for of in classes], "classes of memory")
    for row, of in zip(rows, classes):
        check(abs(number(row[1]) - of["bytes"]) <= 0.1 * of["bytes"] + 2**18, f"{row} and {of}")

    tested.go("disk")
    model, tiles = api("/v1/iomodel"), tested.tiles()
    close(number(tiles["Written, greatest"]), model["write_bandwidth"]["greatest_s"], 0.05, "greatest write bandwidth")

    tested.go("reads")
    pools = {of["name"]: of for of in api("/v1/pools")["pools"]}
    rows = {row[0]: row for row in tested.rows("Pools")}
    check(set(rows) == set(pools), f"pools {set(rows) ^ set(pools)}")
    close(number(rows["ReadStage"][3]), pools["ReadStage"]["completed"], 0.01, "reads that ended")

    tested.go("statements")
    slow, rows = api("/v1/slow"), tested.rows("Slow statements")
    check(slow["count"] > 0 and len(rows) == min(50, len(slow["statements"])), f"{len(rows)} slow statements of {len(slow['statements'])}")
    check(rows[0][1] == slow["statements"][0]["text"] and number(rows[0][2]) == slow["statements"][0]["count"], f"{rows[0]}")
    close(number(rows[0][5]), slow["statements"][0]["max_us"] / 1e6, 0.01, "longest slow statement")


def figures_under_load(tested):
    """Rates and percentiles against the node's own counters over the same time."""
    page = tested.page
    tested.go("overview")
    begin, from_s = tested.metrics(), time.time()
    time.sleep(16)
    end, to_s = tested.metrics(), time.time()

    def rate(name):
        return (end[name] - begin[name]) / (to_s - from_s)

    shown = tested.points("Requests per second, by service level", from_s)
    close(shown, rate("messina_transport_request_latency_seconds_count"), 0.25, "requests per second")
    tested.go("statements")
    kinds = ["scylla_cql_reads", "scylla_cql_inserts", "scylla_cql_updates", "scylla_cql_deletes", "scylla_cql_batches"]
    close(tested.points("Statements per second, by kind", from_s), sum(map(rate, kinds)), 0.3, "statements per second")
    clients = tested.rows("Clients")
    check(len(clients) == len(tested.api("/v1/clients")) > 0, f"{len(clients)} clients")


def keys(tested):
    """Sections, pause, and the choice of a table by keys."""
    page = tested.page
    page.size(*WIDE, False)
    for at, section in enumerate(SECTIONS):
        page.run("document.activeElement.blur()")
        page.key(str(at + 1))
        page.wait(f"location.hash === '#{section}' && document.querySelector('nav a[aria-current]')?.hash === '#{section}'", 5)
    page.run("document.activeElement.blur()")
    page.key("2")
    tested.rounds(2)
    page.key("p")
    check("Paused" in page.run("state.textContent"), "p does not pause")
    time.sleep(0.5)
    asked = len(page.requests)
    time.sleep(2.5 * ROUND_S)
    check(len(page.requests) == asked, f"a paused page asks: {page.requests[asked:]}")
    page.key("p")
    tested.rounds(1)
    # A table by Tab and Enter: the choice stays when the list is refreshed.
    names = [row[0] for row in tested.rows("Tables")]
    page.run("document.querySelector('input[type=search]').focus()")
    for _ in range(10):
        page.key("Tab")
        if page.run("document.activeElement.dataset.table") == names[1]:
            break
    check(page.run("document.activeElement.dataset.table") == names[1], "Tab does not reach the second table")
    page.key("Enter")
    page.wait(f"document.querySelector('tr[aria-selected=true]').dataset.table === {json.dumps(names[1])}", 10)
    tested.rounds(2)
    check(page.run("document.activeElement.dataset.table") == names[1], "the focus is lost when the list is refreshed")
    # Digits in a field are text.
    page.run("document.querySelector('input[type=search]').focus()")
    page.key("3")
    check(page.run("location.hash") == "#tables", "a digit in a field leaves the section")
    page.wait("document.querySelector('.card').textContent.includes('No table matches')", 10)
    page.run("tables.filter = ''; document.activeElement.blur()")


def console(tested):
    """The console of a node without passwords: reads for this page, nothing for others."""
    page, post = tested.page, tested.post
    page.size(*WIDE, False)
    tested.go("console")

    def statement(text, by_key=True):
        page.run("document.querySelector('textarea').value = ''; document.querySelector('textarea').focus()")
        page.type(text)
        if by_key:
            page.key("Enter", modifiers=2)
        else:
            page.run("[...document.querySelectorAll('button')].find(of => of.textContent === 'Run').click()")
        page.wait("!consoleSection.isRunning", 30)
        return page.run("consoleSection.result.textContent")

    found = statement("SELECT customer, at, text FROM shop.orders WHERE customer = 7 AND at < 1002")
    check("22 rows" in found, found)
    head = page.run("[...consoleSection.result.querySelectorAll('th')].map(of => of.innerText.replace(/\\s+/g, ' '))")
    check(head == ["customer int", "at int", "text text"], f"{head}")
    found = statement("SELECT items FROM shop.carts WHERE id = 99", by_key=False)
    check("1 row;" in found and "['a', 'b']" in found, found)
    found = statement("SELECT customer, at FROM shop.orders WHERE customer = 7")
    check("100 rows, and more" in found, found)
    first = page.run("consoleSection.result.querySelector('tbody td:nth-child(2)').textContent")
    page.run("[...consoleSection.result.querySelectorAll('button')].find(of => of.textContent === 'Next page').click()")
    page.wait("!consoleSection.isRunning", 30)
    second = page.run("consoleSection.result.querySelector('tbody td:nth-child(2)').textContent")
    check(int(second) > int(first) + 99, f"the second page begins at {second}, the first at {first}")
    page.run("document.querySelector('input[type=checkbox]').click()")
    found = statement("SELECT * FROM shop.events LIMIT 1")
    check("Trace, " in found and len(tested.rows("Result")) > 2, found)
    page.run("document.querySelector('input[type=checkbox]').click()")
    if tested.pictures:
        statement("SELECT * FROM shop.orders WHERE customer = 7 LIMIT 20")
        page.screenshot(tested.pictures / "console-wide-light.png")
    failures = len(page.failures)
    found = statement("SELECT *\nFROM shop.orders\nWHERE customer == 7")
    check("line 3:" in found and "^" in found, found)
    if tested.pictures:
        page.screenshot(tested.pictures / "console-error-wide-light.png")
    found = statement("INSERT INTO shop.carts (id) VALUES (-1)")
    check("only SELECT and DESCRIBE" in found, found)
    found = statement("SELECT nothing FROM shop.carts")
    check("nothing" in found, found)
    # The browser writes each refused request to its console.
    for text in page.failures[failures:]:
        check("/v1/console" in text or "403" in text or "400" in text, text)
    del page.failures[failures:]

    query = {"statement": "SELECT * FROM system.local"}
    ours = {"X-Requested-By": "test"}
    check(post("/v1/console", query, ours)[0] == 200, "a script may read")
    check(post("/v1/console", query)[0] == 403, "a request without the header")
    own = {**ours, "Origin": tested.origin, "Sec-Fetch-Site": "same-origin"}
    check(post("/v1/console", query, own)[0] == 200, "the page's own request")
    for more in [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}, {"Origin": "null"}]:
        check(post("/v1/console", query, {**own, **more})[0] == 403, f"a request with {more}")
    for change in ["INSERT INTO shop.carts (id) VALUES (-1)", "DROP TABLE shop.carts", "TRUNCATE shop.carts"]:
        check(post("/v1/console", {"statement": change}, own)[0] == 403, change)
    check("-1" not in cql(tested.node, "SELECT id FROM shop.carts WHERE id = -1;").replace("- 1", ""), "something was written")

    # Another page, from another port of this machine.
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title>")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        tab = tested.browser.page()
        tab.open(f"http://127.0.0.1:{other.server_port}/")
        for path, method in [("/v1/console", "POST"), ("/v1/info", "GET"), ("/v1/flush", "POST")]:
            for kind in ("application/json", "text/plain"):
                asked = tab.run(f"""fetch("{tested.origin}{path}", {{ method: "{method}", {'body: ' + json.dumps(json.dumps(query)) + ',' if method == 'POST' else ''}
                    headers: {{ "content-type": "{kind}", "x-requested-by": "x" }} }}).then(answer => answer.text(), error => "refused")""")
                check(asked == "refused", f"another page reads the answer of {path}: {asked}")
        # Without headers of its own the request is sent, and the node must refuse it.
        sent = tab.run(f"""fetch("{tested.origin}/v1/console", {{ method: "POST", mode: "no-cors", body: {json.dumps(json.dumps(query))} }}).then(answer => answer.type, error => "refused")""")
        statuses = [text for text in tab.failures if "/v1/console" in text and "403" in text]
        check(sent in ("opaque", "refused") and statuses, f"another page's request was not refused: {sent}, {tab.failures}")
        other.shutdown()


def cpu(tested, is_release):
    """CPU of the node with the page open, and closed."""
    def share(seconds):
        begin, from_s = tested.node.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (tested.node.cpu_s() - begin) / (time.monotonic() - from_s)

    page = tested.page
    shares = {}
    for section in SECTIONS:
        tested.go(section)
        time.sleep(1)
        shares[section] = share(12)
    page.open("about:blank")
    time.sleep(2)
    closed = share(20)
    print(f"CPU of the node, of one core: closed {100 * closed:.2f} %; open, more: "
          + ", ".join(f"{section} {100 * (open_ - closed):.2f} %" for section, open_ in shares.items()))
    if is_release:
        worst = max(shares.values()) - closed
        check(worst < CPU_SHARE_MAX, f"the open page costs {100 * worst:.2f} % of a core")
    page.open(f"{tested.origin}/")


def pictures_of(tested, state, sections):
    """The sections in this state in all views; each must be free of overflow and of failures."""
    for size, is_dark in VIEWS:
        tested.page.size(*size, is_dark)
        for section in sections:
            tested.go(section)
            width, window, wide = tested.page.run(OVERFLOW)
            check(width <= window and not wide, f"{state}, {section}: {width} wide; beyond the window: {wide}")
            if tested.pictures:
                tested.page.screenshot(tested.pictures / f"{state}-{section}-{'phone' if size == PHONE else 'wide'}-{'dark' if is_dark else 'light'}.png")


def finish(process):
    process.terminate()
    process.wait(30)


def run(arguments):
    wanted = arguments.only or ["idle", "load", "compaction", "overload"]
    pictures = Path(arguments.screenshots).resolve() if arguments.screenshots else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    flags = ["--smp", "2", "--memory", "512M", "--set", "slow_query_log_timeout=1ms", "--set", "compaction_large_partition_warning_threshold=64KiB"]
    node = nodes.Messina(flags=flags, profile=arguments.profile)
    try:
        node.start()
        fill(node)
        with cdp.Browser() as browser:
            tested = Tested(node, browser.page(), pictures)
            tested.browser = browser
            tested.page.open(f"{tested.origin}/")
            cql(node, "SELECT COUNT(*) FROM shop.orders;\nSELECT COUNT(*) FROM shop.events;\n")
            if "idle" in wanted:
                for test in (figures, sections_in_all_views, keys, console):
                    begin = time.monotonic()
                    test(tested)
                    print(f"{test.__name__}: passed in {time.monotonic() - begin:.0f} s", flush=True)
                if not arguments.no_cpu:
                    cpu(tested, arguments.profile == "release")
            if "load" in wanted:
                stress_words = ["n=100000", "-rate", "threads=16"]
                filling = stress(node, "write", *stress_words)
                filling.wait(300)
                load = stress(node, "mixed", "ratio(write=1,read=1)", "duration=10m", "-pop", "dist=uniform(1..100k)", "-rate", "threads=16", "throttle=2000/s")
                try:
                    time.sleep(5)
                    tested.page.size(*WIDE, False)
                    figures_under_load(tested)
                    pictures_of(tested, "load", ["overview", "tables", "statements", "memory", "disk", "reads"])
                finally:
                    finish(load)
                print("load: passed", flush=True)
            if "compaction" in wanted:
                major_compaction(tested)
                print("compaction: passed", flush=True)
            if "overload" in wanted:
                load = stress(node, "write", "duration=10m", "no-warmup", "-pop", "seq=1..1M", "-rate", "threads=400")
                try:
                    time.sleep(20)
                    tested.page.size(*WIDE, False)
                    tested.go("overview")
                    check(number(tested.tiles()["Clients"]) > 0 and tested.points("Requests per second, by service level", time.time() - 10) > 1000, "there is no load")
                    pictures_of(tested, "overload", ["overview", "statements", "reads", "compactions"])
                    check(load.poll() is None, "the load has ended")
                finally:
                    finish(load)
                print("overload: passed", flush=True)
            foreign = [url for url, _ in tested.page.requests if not url.startswith((tested.origin + "/", "about:", "data:"))]
            check(not foreign, f"fetched from elsewhere: {foreign[:5]}")
            changes = {(url, method) for url, method in tested.page.requests if method != "GET" and not url.endswith("/v1/console")}
            check(not changes, f"the page changes something: {changes}")
            check(not tested.page.failures, f"failures in the browser: {tested.page.failures[:10]}")
            check(len(tested.page.requests) > 50, "the page asked nothing")
        check(node.stop() == 0, "the node ended badly")
        print(f"the page: {checks} checks passed")
    except BaseException:
        print(node.tail(15), file=sys.stderr)
        raise
    finally:
        node.remove()


def major_compaction(tested):
    """A major compaction at a low rate: its progress, rate and forecast."""
    node, page = tested.node, tested.page
    if "keyspace1.standard1" not in {f"{of['keyspace']}.{of['table']}" for of in tested.api("/v1/tables")}:
        stress(node, "write", "n=100000", "-rate", "threads=16").wait(300)
    node.nodetool("flush")
    node.nodetool("setcompactionthroughput", "1")
    job = subprocess.Popen([str(word) for word in [node.binary, "nodetool", "-h", node.host, "-p", node.api_port, "compact", "keyspace1", "standard1"]],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page.size(*WIDE, False)
        tested.go("compactions")
        page.wait("document.querySelector('.bar') !== null", 20)
        for _ in range(3):
            tested.rounds(1)
            running = tested.api("/v1/compactions")["running"]
            rows = tested.rows("Running")
            check(len(rows) == len(running) > 0, f"{len(rows)} running jobs of {len(running)}")
        shown = sum(number(row[4]) for row in rows)
        close(shown, sum(of["completed_bytes"] for of in running), 0.35, "bytes that the jobs have read")
        close(sum(number(row[5]) for row in rows), sum(of["total_bytes"] for of in running), 0.02, "bytes that the jobs read")
        tiles = tested.tiles()
        rate = sum(of["completed_bytes"] / (of["running_us"] / 1e6) for of in running)
        close(number(tiles["Their rate"]), rate, 0.35, "rate of the running jobs")
        rest = sum(of["total_bytes"] - of["completed_bytes"] for of in running)
        check(abs(number(tiles["Running jobs still read"]) - rest) < 6 * rate, f"{tiles}, and {rest} bytes are left")
        ends = re.fullmatch(r"in (?:(\d+) min ?)?(?:(\d+) s)?", tiles["The last of them ends"])
        check(ends, f"{tiles}")
        shown = 60 * int(ends[1] or 0) + int(ends[2] or 0)
        check(abs(shown - rest / rate) < 0.35 * rest / rate + 6, f"the page says {shown} s, the jobs need {rest / rate:.0f} s")
        pictures_of(tested, "compaction", ["compactions", "tables", "overview"])
    finally:
        node.nodetool("setcompactionthroughput", "0")
        job.wait(300)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="dev", help="cargo's profile [default: dev]")
    parser.add_argument("--screenshots", metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=["idle", "load", "compaction", "overload"])
    parser.add_argument("--no-cpu", action="store_true", help="leaves out the measurement of the CPU, of two minutes")
    run(parser.parse_args())
