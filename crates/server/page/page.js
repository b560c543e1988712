"use strict";
// The page of a node. It reads /metrics and GET requests of the admin API, and changes nothing; only its console, in console.js, can.
// While it is not visible it asks nothing.

const PERIOD_MS = 2000;
const POINTS = 300;
const COLORS = ["#0b7fd0", "#e0690b", "#2a9d57", "#b04ac2", "#c23b3b", "#8a7a00", "#2aa1a1", "#7060d0", "#7f7f7f", "#d05b92", "#5a8a1f", "#a0602a", "#4a6fa5", "#9a7fb0"];

// --- what is asked -----------------------------------------------------------------------------------------------------------

async function ask(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  if (!answer.ok) {
    const text = await answer.text();
    let why = text;
    try { why = JSON.parse(text).error || text; } catch { /* the body is not JSON */ }
    throw new Error(`${path}: ${answer.status} ${why}`);
  }
  return answer;
}
const json = async path => (await ask(path)).json();
const query = (path, parameters) => `${path}?${new URLSearchParams(parameters)}`;

// The Prometheus text as a map from names to lists of { labels, value }.
function parseMetrics(text) {
  const metrics = new Map();
  for (const line of text.split("\n")) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    if (!metrics.has(found[1])) metrics.set(found[1], []);
    metrics.get(found[1]).push({ labels, value: Number(found[3]) });
  }
  return metrics;
}

// The sum of a metric for each value of a label.
function sums(metrics, name, label) {
  const out = new Map();
  for (const { labels, value } of metrics.get(name) || []) {
    const key = label ? labels[label] || "" : "";
    out.set(key, (out.get(key) || 0) + value);
  }
  return out;
}

// Rates per second between two samples. A counter that fell was reset by a start.
function rates(before, now, seconds, name, label) {
  const old = sums(before, name, label);
  const out = new Map();
  for (const [key, value] of sums(now, name, label)) {
    const from = old.get(key) ?? value;
    out.set(key, value >= from ? (value - from) / seconds : 0);
  }
  return out;
}

// A quantile of what was observed between two samples, from the buckets of a histogram, in the unit of the buckets; null: nothing.
function quantiles(before, now, name, label, quantile) {
  const buckets = metrics => {
    const out = new Map();
    for (const { labels, value } of metrics.get(`${name}_bucket`) || []) {
      const key = labels[label] || "";
      if (!out.has(key)) out.set(key, new Map());
      const of = out.get(key);
      of.set(labels.le, (of.get(labels.le) || 0) + value);
    }
    return out;
  };
  const old = buckets(before);
  const out = new Map();
  for (const [key, of] of buckets(now)) {
    const counts = [...of].map(([le, count]) => [le === "+Inf" ? Infinity : Number(le), Math.max(0, count - (old.get(key)?.get(le) || 0))]);
    counts.sort((a, b) => a[0] - b[0]);
    const total = counts.length ? counts[counts.length - 1][1] : 0;
    if (!total) { out.set(key, null); continue; }
    const wanted = total * quantile;
    let low = 0, below = 0;
    for (const [le, count] of counts) {
      if (count >= wanted) {
        const part = count > below ? (wanted - below) / (count - below) : 1;
        out.set(key, le === Infinity ? low : low + (le - low) * part);
        break;
      }
      low = le; below = count;
    }
  }
  return out;
}

// --- how it is shown ---------------------------------------------------------------------------------------------------------

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined));
  return element;
}
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}
// Replaces the content of an element that is refreshed. What the user has scrolled stays where it is, and content in which text is
// selected stays as it is.
function put(element, ...children) {
  const selection = getSelection();
  if (!selection.isCollapsed && element.contains(selection.anchorNode)) return;
  const places = [...element.querySelectorAll(".scroll")].map(of => [of.scrollTop, of.scrollLeft]);
  const focused = [...element.querySelectorAll("[tabindex]")].indexOf(document.activeElement);
  element.replaceChildren(...children);
  element.querySelectorAll(".scroll").forEach((of, at) => { if (places[at]) [of.scrollTop, of.scrollLeft] = places[at]; });
  if (focused >= 0) element.querySelectorAll("[tabindex]")[focused]?.focus({ preventScroll: true });
}
const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), ...children);
const wide = (title, ...children) => h("section", { class: "card wide" }, h("h2", {}, title), ...children);

function scaled(value, units, step) {
  let at = 0;
  while (Math.abs(value) >= step && at < units.length - 1) { value /= step; at++; }
  return `${value >= 100 ? value.toFixed(0) : Number(value.toPrecision(3))} ${units[at]}`.trim();
}
const bytes = value => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
const count = value => scaled(value, ["", "k", "M", "G", "T"], 1000);
const micros = value => scaled(value, ["µs", "ms", "s"], 1000);
const seconds = value => value === null ? "–" : micros(value * 1e6);
const milliseconds = value => micros(value * 1000);
const percent = value => `${value === 0 ? 0 : value.toFixed(value < 1 ? 2 : value < 10 ? 1 : 0)} %`;
const bytesPerSecond = value => `${bytes(value)}/s`;
function duration(total_s) {
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = parts.findIndex(([, s]) => total_s >= s);
  if (at < 0) return "0 s";
  const first = Math.floor(total_s / parts[at][1]);
  const rest = at < 3 ? Math.floor((total_s % parts[at][1]) / parts[at + 1][1]) : 0;
  return `${first} ${parts[at][0]}${rest ? ` ${rest} ${parts[at + 1][0]}` : ""}`;
}
// Windows of time are named by their begin in microseconds.
const reason = text => text.replace(/\b(\d{15,16}) us\b/g, (_, us) => new Date(us / 1000).toLocaleString());
const clock = ms => new Date(ms).toLocaleTimeString([], { hour12: false });

// The width for a picture in an element, in pixels: its texts have their size on every screen.
const roomOf = element => {
  // An element of a section that was left meanwhile has no style.
  const style = getComputedStyle(element);
  const padding = (parseFloat(style.paddingLeft) || 0) + (parseFloat(style.paddingRight) || 0);
  return Math.max(240, Math.min(900, element.clientWidth - padding));
};

function table(head, rows, empty) {
  if (!rows.length) return h("p", { class: "dim" }, empty);
  const cell = (value, at) => h("td", { class: head[at][1] || null }, value instanceof Node ? value : String(value));
  return h("div", { class: "scroll", tabindex: "0" }, h("table", {},
    h("thead", {}, h("tr", {}, head.map(([name, kind]) => h("th", { scope: "col", class: kind || null }, name)))),
    h("tbody", {}, rows.map(row => h("tr", {}, row.map(cell))))));
}

// Distances of the lines of a chart of bytes.
const BINARY = Array.from({ length: 50 }, (_, at) => 2 ** at);

// A chart of the last ten minutes. `series(before, now, s)` returns a map from names to values. With `view`, which makes such a map
// from another one when the chart is drawn, a chart shows a choice of what it has recorded.
class Chart {
  static all = [];
  constructor(title, format, series, view = values => values) {
    Object.assign(this, { format, series, view, points: [], names: [], plot: null });
    Chart.all.push(this);
    this.area = h("div", { class: "chart" });
    this.legend = h("div", { class: "legend" });
    this.root = card(title, this.area, this.legend);
  }
  // Computes the point of the last two samples.
  sample(before, now) {
    const s = (now.time_ms - before.time_ms) / 1000;
    this.points.push({ time_s: now.time_ms / 1000, values: this.series(before.metrics, now.metrics, s) });
    if (this.points.length > POINTS) this.points.shift();
  }
  draw() {
    const times = this.points.map(point => point.time_s), values = this.points.map(point => this.view(point.values));
    const names = [...new Set(values.flatMap(of => [...of.keys()]))].sort();
    const data = [times, ...names.map(name => values.map(of => of.get(name) ?? null))];
    if (names.join("\n") !== this.names.join("\n") || !this.plot) this.make(names, data);
    else this.plot.setData(data);
    const last = values[values.length - 1] || new Map();
    this.legend.replaceChildren(...names.map((name, at) => h("span", {}, h("i", { style: `background:${COLORS[at % COLORS.length]}` }), `${name || "all"} ${last.get(name) == null ? "–" : this.format(last.get(name))}`)));
  }
  make(names, data) {
    this.names = names;
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const [dim, line] = ["--dim", "--line"].map(name => style.getPropertyValue(name).trim());
    const axis = { stroke: dim, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px system-ui" };
    this.plot = new uPlot({
      width: this.area.clientWidth || 300, height: 200, legend: { show: false }, cursor: { y: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
      axes: [{ ...axis, space: 70, values: (_, ticks) => ticks.map(time_s => clock(time_s * 1000)) }, { ...axis, size: 78, incrs: [bytes, bytesPerSecond].includes(this.format) ? BINARY : undefined, values: (_, ticks) => ticks.map(this.format) }],
      series: [{}, ...names.map((label, at) => ({ label, stroke: COLORS[at % COLORS.length], width: 1.5, spanGaps: false, points: { show: false } }))],
    }, data, this.area);
  }
  resize() { if (this.plot && this.area.clientWidth) this.plot.setSize({ width: this.area.clientWidth, height: 200 }); }
  redraw() { this.plot?.destroy(); this.plot = null; }
}

// --- sections: each has `show()`, which makes its elements, and `update()` -------------------------------------------------------

// The last two samples of all metrics.
let before = null, now = null;
let info = null;

function chartsOf(...charts) {
  return { roots: charts.map(chart => chart.root), update: () => charts.forEach(chart => chart.draw()), charts };
}
const latency = "messina_transport_request_latency_seconds";
// Runs of a task without a yield that took longer than blocked_reactor_notify_ms, in milliseconds.
const stalls = "scylla_reactor_stalls";
const overviewCharts = chartsOf(
  new Chart("Requests per second, by service level", count, (a, b, s) => rates(a, b, s, `${latency}_count`, "service_level")),
  new Chart("Latency, 99 % of requests, by service level", seconds, (a, b) => quantiles(a, b, latency, "service_level", .99)),
  new Chart("CPU, by shard", percent, (a, b) => new Map([...sums(b, "scylla_reactor_utilization", "shard")].map(([shard, value]) => [`shard ${shard}`, value]))),
  new Chart("CPU time, by scheduling group", percent, (a, b, s) => new Map([...rates(a, b, s, "scylla_scheduler_runtime_ms", "group")].map(([group, ms]) => [group, ms / 10]))),
  new Chart("Disk reads, by class", bytesPerSecond, (a, b, s) => rates(a, b, s, "scylla_io_queue_total_read_bytes", "class")),
  new Chart("Disk writes, by class", bytesPerSecond, (a, b, s) => rates(a, b, s, "scylla_io_queue_total_write_bytes", "class")),
  new Chart("Stalls, the longest, by scheduling group", milliseconds, (a, b) => new Map([...quantiles(a, b, stalls, "group", 1)].map(([group, ms]) => [group, ms ?? 0]))),
);
function tiles(pairs) { return h("dl", { class: "tiles" }, pairs.map(([name, value, bad]) => h("div", {}, h("dt", {}, name), h("dd", { class: bad ? "bad" : null }, value)))); }

const overview = {
  charts: overviewCharts.charts,
  show() {
    this.state = wide("State"); this.stalls = card("Stalls");
    return [this.state, ...overviewCharts.roots, this.stalls];
  },
  async update() {
    overviewCharts.update();
    const total = name => [...sums(now.metrics, name).values()].reduce((a, b) => a + b, 0);
    const rate = cache => cache.hits + cache.misses ? percent(100 * cache.hits / (cache.hits + cache.misses)) : "–";
    const pending = total("scylla_column_family_pending_compaction");
    const failed = total("scylla_compaction_manager_failed_compactions") + total("messina_flush_failures_total");
    const unreadable = total("messina_table_unreadable_sstables") + total("messina_table_missing_sstables");
    put(this.state, h("h2", {}, "State"), tiles([
      ["Mode", info.mode, info.mode !== "NORMAL"], ["Up for", duration(info.uptime_s)], ["Clients", `${info.connections}${info.native_transport ? "" : " (not served)"}`, !info.native_transport],
      ["Data", bytes(info.load_bytes)], ["Physical memory", `${bytes(info.resident_bytes)}`], ["Memtables", bytes(info.memtable_bytes)], ["Commit log", bytes(info.commitlog_bytes)],
      ["Hits of the row cache", rate(info.row_cache)], ["Hits of the chunk cache", rate(info.chunk_cache)], ["Pending compactions", count(pending)],
      ["Stalls of shards", count(total(`${stalls}_count`))], ["Failed flushes, compactions", count(failed), failed > 0], ["Unreadable, missing SSTables", count(unreadable), unreadable > 0],
    ]));
    const longest = quantiles(new Map(), now.metrics, stalls, "group", 1);
    const stalled = [...sums(now.metrics, `${stalls}_count`, "group")].filter(([, number]) => number > 0).sort((a, b) => b[1] - a[1]);
    put(this.stalls, h("h2", {}, "Stalls since the start"), table([["Scheduling group"], ["Stalls"], ["Longest, at most"]], stalled.map(([group, number]) => [group, count(number), milliseconds(longest.get(group) ?? 0)]), "No task has kept a shard from its other work."),
      h("p", { class: "dim" }, "The log says where the task was begun: Reactor stalled."));
  },
};

// Write and space amplification since the start, and the SSTables that reads of the last seconds opened, for each table.
const amplifications = (a, b, s) => {
  const byTable = (metrics, name) => {
    const out = new Map();
    for (const { labels, value } of metrics.get(name) || []) {
      const key = `${labels.ks}.${labels.cf}`;
      out.set(key, (out.get(key) || 0) + value);
    }
    return out;
  };
  const of = name => byTable(b, name);
  const grew = name => { const old = byTable(a, name); return new Map([...byTable(b, name)].map(([key, value]) => [key, value - (old.get(key) ?? value)])); };
  const [flushed, compacted, used, live] = ["messina_table_flushed_bytes_total", "messina_table_compacted_bytes_total", "scylla_column_family_live_disk_space", "messina_table_live_bytes"].map(of);
  const [reads, opened] = ["messina_table_point_reads_total", "messina_table_point_read_sstables_total"].map(grew);
  const ratio = (part, whole) => whole > 0 ? part / whole : null;
  return new Map([...flushed].map(([key, bytes]) => [key, new Map([["write", ratio(bytes + compacted.get(key), bytes)], ["space", ratio(used.get(key), live.get(key))], ["SSTables a read", ratio(opened.get(key), reads.get(key))]])]));
};
const amplification = new Chart("Amplifications of the chosen table", value => value.toFixed(2), amplifications, values => values.get(tables.chosen) ?? new Map());

const tables = {
  charts: [amplification],
  chosen: null, filter: "",
  show() {
    this.list = h("div");
    this.picture = h("div"); this.why = h("pre", { tabindex: "0" }); this.tombstones = h("div");
    const filter = h("input", { type: "search", placeholder: "filter: keyspace or table", "aria-label": "Filter tables", value: this.filter, oninput: event => { this.filter = event.target.value; this.update(); } });
    this.large = wide("Large partitions, rows and cells");
    return [wide("Tables", filter, this.list), wide("SSTables of the chosen table", this.picture), card("Why it compacts, or does not", this.why), amplification.root, wide("Tombstones", this.tombstones), this.large];
  },
  async update() {
    const [all, large] = await Promise.all([json("/v1/tables"), json("/v1/largedata")]);
    put(this.large, h("h2", {}, "Large partitions, rows and cells"), table([["Table"], ["Kind", "text"], ["Partition", "key"], ["Row, column", "key"], ["Size"], ["Rows"], ["Tombstones"], ["Elements"], ["SSTable", "text"]],
      large.slice(0, 50).map(of => [`${of.keyspace}.${of.table}`, of.kind, of.partition, [of.clustering, of.column].filter(Boolean).join(", ") || "–", bytes(of.bytes), ...[of.rows, of.tombstones, of.elements].map(number => number === null ? "–" : count(number)), of.sstable]),
      "None is above the thresholds (compaction_large_partition_warning_threshold and the like). The largest partition of each table is in the list of tables."));
    const words = this.filter.toLowerCase();
    const shown = all.filter(one => `${one.keyspace}.${one.table}`.toLowerCase().includes(words) && (words || !one.keyspace.startsWith("system")));
    shown.sort((a, b) => b.space_used_live - a.space_used_live || `${a.keyspace}.${a.table}`.localeCompare(`${b.keyspace}.${b.table}`));
    const isChosen = one => this.chosen === `${one.keyspace}.${one.table}`;
    if (!shown.some(isChosen)) this.chosen = shown.length ? `${shown[0].keyspace}.${shown[0].table}` : null;
    const head = ["Table", "Disk", "SSTables", "Pending", "Reads", "p99", "Writes", "p99", "SSTables a read", "Write ampl.", "Space ampl.", "Ratio", "Largest partition"];
    const focused = document.activeElement?.dataset?.table;
    const body = shown.map(one => {
      const name = `${one.keyspace}.${one.table}`;
      const choose = () => { this.chosen = name; this.update(); };
      const cells = [name, bytes(one.space_used_live), one.sstable_count, one.pending_compactions, count(one.reads.count), micros(one.reads.p99_us), count(one.writes.count), micros(one.writes.p99_us),
        one.sstables_per_read.toFixed(2), one.write_amplification ? one.write_amplification.toFixed(2) : "–", one.space_amplification ? one.space_amplification.toFixed(2) : "–", one.compression_ratio >= 0 ? one.compression_ratio.toFixed(2) : "–", one.partition_max_bytes ? bytes(one.partition_max_bytes) : "–"];
      return h("tr", { class: "pick", tabindex: "0", "data-table": name, "aria-selected": String(isChosen(one)), onclick: choose, onkeydown: event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } } }, cells.map(value => h("td", {}, String(value))));
    });
    put(this.list, shown.length ? h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head.map(name => h("th", { scope: "col" }, name)))), h("tbody", {}, body))) : h("p", { class: "dim" }, words ? "No table matches." : "There are no tables but those of the system; type system to see these."));
    body.find(row => row.dataset.table === focused)?.focus({ preventScroll: true });
    const chosen = all.find(isChosen);
    if (!chosen) { [this.picture, this.why, this.tombstones].forEach(of => of.replaceChildren()); return; }
    const { keyspace, table: name } = chosen;
    const [files, explained, tombs] = await Promise.all([json(query("/v1/sstableinfo", { keyspace, tables: name })), json(query("/v1/compactions/explain", { keyspace, table: name })), json(query("/v1/tombstones", { keyspace, table: name }))]);
    const sstables = files.find(of => of.table === name)?.sstables || [];
    put(this.picture, h("p", { class: "dim" }, `${keyspace}.${name}: ${sstables.length} SSTables, ${bytes(chosen.space_used_live)}, ${chosen.compaction_strategy}`), drawSSTables(chosen, sstables, roomOf(this.picture)));
    amplification.draw();
    this.why.textContent = explained.map(of => `shard ${of.shard}: ${of.explanation}${of.waits.length ? `\n  waits for: ${of.waits.join("; ")}` : ""}${of.backlog_bytes ? `\n  backlog: ${bytes(of.backlog_bytes)}${of.backlog_ends_s === null ? "" : `, ends in ${duration(of.backlog_ends_s)}`}` : ""}`).join("\n\n");
    const rows = tombs.sstables.map(of => [of.sstable, count(of.tombstones), count(of.droppable), of.kept_because.join("; "), of.freed_by]);
    put(this.tombstones, h("p", { class: "dim" }, `Grace period ${duration(tombs.gc_grace_s)}, mode ${tombs.mode}`), table([["SSTable"], ["Tombstones"], ["Droppable"], ["Kept because", "reason"], ["Freed by", "reason"]], rows, "No SSTable has tombstones."));
  },
};

// Rows of the picture: levels, windows of time, or tiers of similar size. The area of a box is the size of its SSTable.
function drawSSTables(stats, sstables, width) {
  if (!sstables.length) return h("p", { class: "dim" }, "No SSTables: all data are in memtables.");
  const strategy = stats.compaction_strategy;
  const rows = new Map();
  const put = (name, order, sstable) => { if (!rows.has(name)) rows.set(name, { order, boxes: [] }); rows.get(name).boxes.push(sstable); };
  for (const sstable of sstables) {
    if (/Leveled/.test(strategy)) {
      const limit = stats.level_limits[sstable.level];
      put(`level ${sstable.level}${limit ? ` (of ${limit})` : ""}`, sstable.level, sstable);
    } else if (/TimeWindow|DateTiered/.test(strategy)) {
      const day = new Date(sstable.max_timestamp_ms).toISOString().slice(0, 13);
      put(`${day.replace("T", " ")} h`, -sstable.max_timestamp_ms, sstable);
    } else {
      const tier = Math.max(0, Math.floor(Math.log2(Math.max(1, sstable.size)) / 2));
      put(`${bytes(4 ** tier)} to ${bytes(4 ** (tier + 1))}`, -tier, sstable);
    }
  }
  const largest = Math.max(...sstables.map(of => of.size));
  const times = sstables.map(of => of.max_timestamp_ms);
  const [oldest, newest] = [Math.min(...times), Math.max(...times)];
  const side = of => Math.max(5, 44 * Math.sqrt(of.size / largest));
  const left = width < 500 ? 96 : 150;
  let y = 8;
  const parts = [];
  for (const [name, { boxes }] of [...rows].sort((a, b) => a[1].order - b[1].order)) {
    boxes.sort((a, b) => b.size - a.size);
    let x = left, height = 0;
    const label = svg("text", { x: 0, y: y + 12 });
    label.textContent = name;
    parts.push(label);
    for (const of of boxes) {
      const s = side(of);
      if (x + s > width) { x = left; y += height + 4; height = 0; }
      const age = newest > oldest ? (newest - of.max_timestamp_ms) / (newest - oldest) : 0;
      const title = svg("title");
      title.textContent = `${of.generation} (${of.version}): ${bytes(of.size)}, ${count(of.partitions)} partitions, ${count(of.tombstones)} tombstones, newest write ${new Date(of.max_timestamp_ms).toLocaleString()}`;
      parts.push(svg("rect", { x, y, width: s, height: s, rx: 2, fill: "var(--accent)", "fill-opacity": (1 - .75 * age).toFixed(2) }, title));
      x += s + 4; height = Math.max(height, s);
    }
    y += Math.max(height, 14) + 10;
  }
  const picture = svg("svg", { viewBox: `0 0 ${width} ${y}`, style: `max-width: ${width}px`, role: "img", "aria-label": `${sstables.length} SSTables by ${[...rows.keys()].join(", ")}` }, parts);
  return h("div", {}, picture, h("p", { class: "dim" }, "Area: size on disk. Strong color: the newest writes. Point at a box for its figures."));
}

const compactionCharts = chartsOf(
  new Chart("Read and written by compactions", bytesPerSecond, (a, b, s) => new Map([["read", rates(a, b, s, "scylla_io_queue_total_read_bytes", "class").get("compaction") || 0], ["written", rates(a, b, s, "scylla_io_queue_total_write_bytes", "class").get("compaction") || 0]])),
  new Chart("Backlog of compactions", bytes, (a, b) => new Map([...sums(b, "scylla_compaction_manager_backlog", "shard")].map(([shard, value]) => [`shard ${shard}`, value]))),
);
// What must still be rewritten, how fast the running jobs do it, and when that ends.
function forecast(list) {
  const left = [...sums(now.metrics, "scylla_compaction_manager_backlog").values()].reduce((a, b) => a + b, 0);
  const rateOf = of => of.running_us ? of.completed_bytes / (of.running_us / 1e6) : 0;
  const restOf = of => Math.max(0, of.total_bytes - of.completed_bytes);
  const rate = list.running.reduce((sum, of) => sum + rateOf(of), 0);
  const rest = list.running.reduce((sum, of) => sum + restOf(of), 0);
  const ends = list.running.map(of => rateOf(of) ? restOf(of) / rateOf(of) : Infinity);
  const points = compactionCharts.charts[1].points;
  const minute = points.find(point => point.time_s >= now.time_ms / 1000 - 60);
  const then = minute && [...minute.values.values()].reduce((a, b) => a + b, 0);
  const change = minute === undefined || minute.time_s > now.time_ms / 1000 - 10 ? null : left - then;
  return [
    ["Running jobs still read", bytes(rest)], ["Their rate", rate ? bytesPerSecond(rate) : "–"],
    ["The last of them ends", !ends.length ? "–" : Math.max(...ends) < Infinity ? `in ${duration(Math.ceil(Math.max(...ends)))}` : "unknown"],
    ["Backlog: to be rewritten", bytes(left)],
    ["Backlog ends, without writes", left === 0 ? "there is none" : rate ? `in ${duration(Math.ceil(left / rate))}` : "unknown: no job runs"],
    ["Its change in a minute", change === null ? "–" : `${change > 0 ? "+" : change < 0 ? "−" : ""}${bytes(Math.abs(change))}`, change > 0],
  ];
}
const compactions = {
  charts: compactionCharts.charts,
  show() {
    this.running = wide("Running"); this.backlog = wide("Backlog"); this.pending = card("Pending"); this.ended = wide("Ended");
    return [this.running, this.backlog, ...compactionCharts.roots, this.pending, this.ended];
  },
  async update() {
    compactionCharts.update();
    const [list, past] = await Promise.all([json("/v1/compactions"), json("/v1/compactions/history")]);
    const progress = of => h("div", { class: "bar", role: "progressbar", "aria-valuenow": Math.round(100 * of.completed_bytes / Math.max(1, of.total_bytes)), "aria-valuemin": 0, "aria-valuemax": 100 }, h("span", { style: `width:${100 * of.completed_bytes / Math.max(1, of.total_bytes)}%;background:var(--accent)` }));
    put(this.running, h("h2", {}, `Running (${list.running.length}); completed ${list.completed}, failed ${list.failed}, stopped ${list.stopped}`),
      table([["Table"], ["Kind", "text"], ["Reason", "reason"], ["Progress", "text"], ["Read"], ["Of"], ["Rate"]], list.running.map(of => [`${of.keyspace}.${of.table}`, of.kind, reason(of.reason), progress(of), bytes(of.completed_bytes), bytes(of.total_bytes), of.running_us ? bytesPerSecond(of.completed_bytes / (of.running_us / 1e6)) : "–"]), "No compaction is running."),
      ...(list.last_error ? [h("p", { class: "bad" }, `Last error: ${list.last_error}`)] : []));
    put(this.backlog, h("h2", {}, "Backlog"), tiles(forecast(list)));
    put(this.pending, h("h2", {}, "Pending"), table([["Table"], ["Jobs"]], list.pending.map(of => [`${of.keyspace}.${of.table}`, of.jobs]), "Nothing is pending."));
    const rows = past.slice(-60).reverse().map(of => [clock(of.compacted_at_ms), `${of.keyspace}.${of.table}`, of.kind, reason(of.reason), of.sstables_in, bytes(of.bytes_in), bytes(of.bytes_out), micros(of.took_us)]);
    put(this.ended, h("h2", {}, "Ended, the last 60"), table([["Time"], ["Table", "text"], ["Kind", "text"], ["Reason", "reason"], ["SSTables"], ["Bytes in"], ["Bytes out"], ["Took"]], rows, "No compaction has ended."));
  },
};

const memoryCharts = chartsOf(new Chart("Memory, by class", bytes, (a, b) => sums(b, "messina_memory_class_bytes", "class")));
memoryCharts.roots[0].classList.add("wide");
const memory = {
  charts: memoryCharts.charts,
  show() { this.shards = wide("By shard"); return [...memoryCharts.roots, this.shards]; },
  async update() {
    memoryCharts.update();
    const used_memory = await json("/v1/memory");
    const share = used_memory.budget_bytes / Math.max(1, used_memory.shards.length);
    // A class has the color that it has in the chart.
    const names = [...sums(now.metrics, "messina_memory_class_bytes", "class").keys()].sort();
    const color = of => COLORS[names.indexOf(of.class) % COLORS.length];
    const shards = used_memory.shards.map((classes, shard) => {
      const used = classes.reduce((sum, of) => sum + of.bytes, 0);
      return h("div", {}, h("p", { class: "dim" }, `Shard ${shard}: ${bytes(used)} of ${bytes(share)}`),
        h("div", { class: "bar" }, classes.map(of => h("span", { title: `${of.class}: ${bytes(of.bytes)}`, style: `width:${100 * of.bytes / share}%;background:${color(of)}` }))),
        table([["Class"], ["Bytes"], ["Limit"]], classes.map(of => [h("span", { class: "legend" }, h("span", {}, h("i", { style: `background:${color(of)}` }), of.class)), bytes(of.bytes), of.limit_bytes === null ? "–" : bytes(of.limit_bytes)]), "No classes."));
    });
    put(this.shards, h("h2", {}, `By shard; the process has ${bytes(used_memory.resident_bytes)} of physical memory, the option memory is ${bytes(used_memory.budget_bytes)}`), ...shards);
  },
};

const diskCharts = chartsOf(
  new Chart("Requests per second, by class", count, (a, b, s) => rates(a, b, s, "scylla_io_queue_total_operations", "class")),
  new Chart("Requests in queues, by class", count, (a, b) => sums(b, "scylla_io_queue_queue_length", "class")),
);
const disk = {
  charts: diskCharts.charts,
  show() { this.model = wide("The disk's model"); return [this.model, ...diskCharts.roots]; },
  async update() {
    diskCharts.update();
    const model = await json("/v1/iomodel");
    const rate = (learned, unit) => `${unit(learned.greatest_s)}${learned.fitted_s === null ? "" : `; fitted ${unit(learned.fitted_s)}`}`;
    const perSecond = value => `${count(value)}/s`;
    const given = model.configured;
    put(this.model, h("h2", {}, `The disk of ${model.data_dir}`), tiles([
      ["Reads, greatest", rate(model.read_iops, perSecond)], ["Read, greatest", rate(model.read_bandwidth, bytesPerSecond)], ["Writes, greatest", rate(model.write_iops, perSecond)], ["Written, greatest", rate(model.write_bandwidth, bytesPerSecond)],
      ["By io_properties_file", given ? `${perSecond(given.read_iops)}, ${bytesPerSecond(given.read_bandwidth)}; ${perSecond(given.write_iops)}, ${bytesPerSecond(given.write_bandwidth)}` : "no"],
    ]), drawPlane(model, roomOf(this.model)));
  },
};

// The plane of reads per second and bytes written per second, colored by the latency of reads; a ring shows the last sample.
function drawPlane(model, room) {
  if (!model.cells.length) return h("p", { class: "dim" }, "Nothing was observed yet.");
  const [columns, rows] = [Math.max(model.columns, 8), Math.max(model.rows, 8)];
  const [left, bottom, width, height] = [84, 28, room - 94, room < 500 ? 200 : 300];
  const [w, t] = [width / columns, height / rows];
  const parts = [];
  for (const of of model.cells) {
    // From 100 us to 100 ms.
    const heat = Math.min(1, Math.max(0, Math.log10(Math.max(1, of.p95_us) / 100) / 3));
    const title = svg("title");
    title.textContent = `${count(of.row * model.reads_s_step)} to ${count((of.row + 1) * model.reads_s_step)} reads/s, ${bytes(of.column * model.write_bytes_s_step)}/s to ${bytes((of.column + 1) * model.write_bytes_s_step)}/s written: p95 ${micros(of.p95_us)}, ${of.windows} windows`;
    parts.push(svg("rect", { x: left + of.column * w, y: height - (of.row + 1) * t, width: w, height: t, fill: `hsl(${(1 - heat) * 210} 70% 50%)` }, title));
  }
  if (before) {
    const s = (now.time_ms - before.time_ms) / 1000;
    const reads = rates(before.metrics, now.metrics, s, "scylla_io_queue_total_read_ops").get("") || 0;
    const written = rates(before.metrics, now.metrics, s, "scylla_io_queue_total_write_bytes").get("") || 0;
    const x = Math.min(width, written / model.write_bytes_s_step * w), y = Math.max(0, height - reads / model.reads_s_step * t);
    parts.push(svg("circle", { cx: left + x, cy: y, r: 7, fill: "none", stroke: "var(--text)", "stroke-width": 2.5 }));
  }
  parts.push(svg("path", { d: `M${left} 0 V${height} H${left + width}`, fill: "none", stroke: "var(--line)" }));
  const label = (x, y, text, anchor) => { const of = svg("text", { x, y, "text-anchor": anchor || "start" }); of.textContent = text; return of; };
  parts.push(label(left - 6, height, "0", "end"), label(left - 6, 11, `${count(rows * model.reads_s_step)} reads/s`, "end"), label(left, height + 16, "0"), label(left + width, height + 16, `${bytes(columns * model.write_bytes_s_step)}/s written`, "end"));
  return h("div", {}, svg("svg", { viewBox: `0 0 ${room} ${height + bottom}`, style: `max-width: ${room}px`, role: "img", "aria-label": "Latency of reads by reads and bytes written per second" }, parts), h("p", { class: "dim" }, "Color: 95 % of the reads in that load took at most this, from blue (0.1 ms) to red (100 ms). The ring: the last two seconds."));
}

const readCharts = chartsOf(
  new Chart("Running and waiting reads", count, (a, b) => new Map([["running", sums(b, "scylla_database_active_reads").get("") || 0], ["waiting", sums(b, "scylla_database_queued_reads").get("") || 0]])),
  new Chart("Rows read per second", count, (a, b, s) => new Map([["rows", rates(a, b, s, "scylla_cql_rows_read").get("") || 0]])),
);
const reads = {
  charts: readCharts.charts,
  show() { this.pools = wide("Pools"); this.text = h("pre", { tabindex: "0" }); return [...readCharts.roots, this.pools, wide("Reads by semaphore", this.text)]; },
  async update() {
    readCharts.update();
    const [pools, text] = await Promise.all([json("/v1/pools"), ask("/v1/reads").then(answer => answer.text())]);
    put(this.pools, h("h2", {}, "Pools"), table([["Pool"], ["Active"], ["Pending"], ["Completed"], ["Blocked"]], pools.pools.map(of => [of.name, of.active, of.pending, count(of.completed), of.blocked]), "No pools."));
    this.text.textContent = text || "No reads.";
  },
};

const statementKinds = { SELECT: "scylla_cql_reads", INSERT: "scylla_cql_inserts", UPDATE: "scylla_cql_updates", DELETE: "scylla_cql_deletes", BATCH: "scylla_cql_batches" };
const operations = { read: "scylla_storage_proxy_coordinator_read_latency", "range read": "scylla_storage_proxy_coordinator_range_latency", write: "scylla_storage_proxy_coordinator_write_latency" };
const statementCharts = chartsOf(
  new Chart("Statements per second, by kind", count, (a, b, s) => new Map(Object.entries(statementKinds).map(([kind, name]) => [kind, rates(a, b, s, name).get("") || 0]))),
  new Chart("Latency of statements, 99 %", micros, (a, b) => new Map(Object.entries(operations).map(([kind, name]) => [kind, quantiles(a, b, name, "", .99).get("") ?? null]))),
);
const statements = {
  charts: statementCharts.charts,
  show() { this.slow = wide("Slow statements"); this.clients = wide("Clients"); return [...statementCharts.roots, this.slow, this.clients]; },
  async update() {
    statementCharts.update();
    const [slow, clients] = await Promise.all([json("/v1/slow"), json("/v1/clients")]);
    put(this.slow, h("h2", {}, `Slow statements${slow.limit_us ? `: ${count(slow.count)} took longer than ${micros(slow.limit_us)} since the start` : ""}`),
      table([["Last end"], ["Statement", "reason"], ["Number"], ["Last"], ["Mean"], ["Longest"], ["Shard"]], slow.statements.slice(0, 50).map(of => [clock(of.last_ms), of.text, count(of.count), micros(of.last_us), micros(of.mean_us), micros(of.max_us), of.shard]),
        slow.limit_us ? "No statement was slow." : "slow_query_log_timeout is 0: slow statements are not recorded."));
    put(this.clients, h("h2", {}, "Clients"), table([["Address"], ["Driver", "text"], ["Requests"]], clients.map(of => [`${of.address}:${of.port}`, [of.driver_name, of.driver_version].filter(Boolean).join(" ") || "–", count(of.requests ?? 0)]), "No client is connected."));
  },
};

// --- the loop ----------------------------------------------------------------------------------------------------------------

const sections = { overview, tables, compactions, memory, disk, reads, statements, console: consoleSection };
const main = document.getElementById("main"), state = document.getElementById("node");
let current = null, isPaused = false, isBusy = false;
// Answers of the node that were shown.
let rounds = 0;

function choose() {
  const name = sections[location.hash.slice(1)] ? location.hash.slice(1) : "overview";
  document.querySelectorAll("nav a").forEach(link => link.hash === `#${name}` ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"));
  current = sections[name];
  main.replaceChildren(...current.show());
  current.charts?.forEach(chart => chart.redraw());
  if (now) update();
}
async function update() {
  try {
    await current.update();
  } catch (error) {
    problem(error);
  }
}
function problem(error) {
  state.className = "bad";
  state.textContent = error instanceof TypeError ? "The node does not answer; asking again" : error.message;
}
async function tick() {
  if (document.hidden || isPaused || isBusy) return;
  isBusy = true;
  try {
    const [text, of] = await Promise.all([ask("/metrics").then(answer => answer.text()), json("/v1/info")]);
    info = of;
    // After a pause, or while the page was hidden, rates would be means over the gap.
    before = now && Date.now() - now.time_ms < 5 * PERIOD_MS ? now : null;
    now = { time_ms: Date.now(), metrics: parseMetrics(text) };
    if (before) Chart.all.forEach(chart => chart.sample(before, now));
    state.className = "";
    state.textContent = `${info.cluster_name}, ${info.address}, version ${info.release_version}, ${info.shards} shards, ${info.io_backend}`;
    document.title = `${info.cluster_name} – Messina`;
    await update();
    rounds++;
  } catch (error) {
    problem(error);
  } finally {
    isBusy = false;
  }
}
window.addEventListener("hashchange", () => { choose(); main.focus({ preventScroll: true }); });
window.addEventListener("resize", () => current.charts?.forEach(chart => chart.resize()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { current.charts?.forEach(chart => chart.redraw()); update(); });
document.addEventListener("visibilitychange", tick);
document.addEventListener("keydown", event => {
  if (["INPUT", "TEXTAREA"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const name = Object.keys(sections)[Number(event.key) - 1];
  if (name) location.hash = name;
  if (event.key === "p") { isPaused = !isPaused; state.textContent = isPaused ? "Paused; p continues" : "…"; if (!isPaused) tick(); }
});
choose();
tick();
setInterval(tick, PERIOD_MS);
