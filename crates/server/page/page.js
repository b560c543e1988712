"use strict";
// The page of a node. It reads /metrics and GET requests of the admin API, and changes nothing. While it is not visible it asks
// nothing.

const PERIOD_MS = 2000;
const POINTS = 300;
const COLORS = ["#0b7fd0", "#e0690b", "#2a9d57", "#b04ac2", "#c23b3b", "#8a7a00", "#2aa1a1", "#7060d0", "#7f7f7f", "#d05b92", "#5a8a1f", "#a0602a"];

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
const percent = value => `${value.toFixed(value < 10 ? 1 : 0)} %`;
const bytesPerSecond = value => `${bytes(value)}/s`;
function duration(total_s) {
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = parts.findIndex(([, s]) => total_s >= s);
  if (at < 0) return "0 s";
  const first = Math.floor(total_s / parts[at][1]);
  const rest = at < 3 ? Math.floor((total_s % parts[at][1]) / parts[at + 1][1]) : 0;
  return `${first} ${parts[at][0]}${rest ? ` ${rest} ${parts[at + 1][0]}` : ""}`;
}
const clock = ms => new Date(ms).toLocaleTimeString([], { hour12: false });

function table(head, rows, empty) {
  if (!rows.length) return h("p", { class: "dim" }, empty);
  const cell = (value, at) => h("td", { class: head[at][1] || null }, value instanceof Node ? value : String(value));
  return h("div", { class: "scroll", tabindex: "0" }, h("table", {},
    h("thead", {}, h("tr", {}, head.map(([name, kind]) => h("th", { scope: "col", class: kind || null }, name)))),
    h("tbody", {}, rows.map(row => h("tr", {}, row.map(cell))))));
}

// A chart of the last ten minutes. `series(before, now, s)` returns a map from names to values.
class Chart {
  static all = [];
  constructor(title, format, series) {
    Object.assign(this, { format, series, points: [], names: [], plot: null });
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
    const times = this.points.map(point => point.time_s), values = this.points.map(point => point.values);
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
      axes: [{ ...axis, space: 70, values: (_, ticks) => ticks.map(time_s => clock(time_s * 1000)) }, { ...axis, size: 78, values: (_, ticks) => ticks.map(this.format) }],
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
const overviewCharts = chartsOf(
  new Chart("Requests per second, by service level", count, (a, b, s) => rates(a, b, s, `${latency}_count`, "service_level")),
  new Chart("Latency, 99 % of requests, by service level", seconds, (a, b) => quantiles(a, b, latency, "service_level", .99)),
  new Chart("CPU, by shard", percent, (a, b) => new Map([...sums(b, "scylla_reactor_utilization", "shard")].map(([shard, value]) => [`shard ${shard}`, value]))),
  new Chart("CPU time, by scheduling group", percent, (a, b, s) => new Map([...rates(a, b, s, "scylla_scheduler_runtime_ms", "group")].map(([group, ms]) => [group, ms / 10]))),
  new Chart("Disk reads, by class", bytesPerSecond, (a, b, s) => rates(a, b, s, "scylla_io_queue_total_read_bytes", "class")),
  new Chart("Disk writes, by class", bytesPerSecond, (a, b, s) => rates(a, b, s, "scylla_io_queue_total_write_bytes", "class")),
);
function tiles(pairs) { return h("dl", { class: "tiles" }, pairs.map(([name, value, bad]) => h("div", {}, h("dt", {}, name), h("dd", { class: bad ? "bad" : null }, value)))); }

const overview = {
  charts: overviewCharts.charts,
  show() {
    this.state = wide("State");
    return [this.state, ...overviewCharts.roots];
  },
  async update() {
    overviewCharts.update();
    const total = name => [...sums(now.metrics, name).values()].reduce((a, b) => a + b, 0);
    const rate = cache => cache.hits + cache.misses ? percent(100 * cache.hits / (cache.hits + cache.misses)) : "–";
    const pending = total("scylla_column_family_pending_compaction");
    const failed = total("scylla_compaction_manager_failed_compactions") + total("messina_flush_failures_total");
    const unreadable = total("messina_table_unreadable_sstables") + total("messina_table_missing_sstables");
    this.state.replaceChildren(h("h2", {}, "State"), tiles([
      ["Mode", info.mode, info.mode !== "NORMAL"], ["Up for", duration(info.uptime_s)], ["Clients", `${info.connections}${info.native_transport ? "" : " (not served)"}`, !info.native_transport],
      ["Data", bytes(info.load_bytes)], ["Physical memory", `${bytes(info.resident_bytes)}`], ["Memtables", bytes(info.memtable_bytes)], ["Commit log", bytes(info.commitlog_bytes)],
      ["Hits of the row cache", rate(info.row_cache)], ["Hits of the chunk cache", rate(info.chunk_cache)], ["Pending compactions", count(pending)],
      ["Stalls of shards", count(total("scylla_stall_detector_reported"))], ["Failed flushes, compactions", count(failed), failed > 0], ["Unreadable, missing SSTables", count(unreadable), unreadable > 0],
    ]));
  },
};

const tables = {
  chosen: null, filter: "", system: false,
  show() {
    this.list = h("div");
    this.picture = h("div"); this.why = h("pre", { tabindex: "0" }); this.tombstones = h("div");
    const filter = h("input", { type: "search", placeholder: "filter: keyspace or table", "aria-label": "Filter tables", value: this.filter, oninput: event => { this.filter = event.target.value; this.update(); } });
    return [wide("Tables", filter, this.list), wide("SSTables of the chosen table", this.picture), card("Why it compacts, or does not", this.why), wide("Tombstones", this.tombstones)];
  },
  async update() {
    const all = await json("/v1/tables");
    const words = this.filter.toLowerCase();
    const shown = all.filter(one => `${one.keyspace}.${one.table}`.toLowerCase().includes(words) && (words || !one.keyspace.startsWith("system")));
    shown.sort((a, b) => b.space_used_live - a.space_used_live || `${a.keyspace}.${a.table}`.localeCompare(`${b.keyspace}.${b.table}`));
    const isChosen = one => this.chosen === `${one.keyspace}.${one.table}`;
    if (!shown.some(isChosen)) this.chosen = shown.length ? `${shown[0].keyspace}.${shown[0].table}` : null;
    const head = ["Table", "Disk", "SSTables", "Pending", "Reads", "p99", "Writes", "p99", "SSTables a read", "Write ampl.", "Space ampl.", "Ratio"];
    const focused = document.activeElement?.dataset?.table;
    const body = shown.map(one => {
      const name = `${one.keyspace}.${one.table}`;
      const choose = () => { this.chosen = name; this.update(); };
      const cells = [name, bytes(one.space_used_live), one.sstable_count, one.pending_compactions, count(one.reads.count), micros(one.reads.p99_us), count(one.writes.count), micros(one.writes.p99_us),
        one.sstables_per_read.toFixed(2), one.write_amplification ? one.write_amplification.toFixed(2) : "–", one.space_amplification ? one.space_amplification.toFixed(2) : "–", one.compression_ratio >= 0 ? one.compression_ratio.toFixed(2) : "–"];
      return h("tr", { class: "pick", tabindex: "0", "data-table": name, "aria-selected": String(isChosen(one)), onclick: choose, onkeydown: event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } } }, cells.map(value => h("td", {}, String(value))));
    });
    this.list.replaceChildren(shown.length ? h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head.map(name => h("th", { scope: "col" }, name)))), h("tbody", {}, body))) : h("p", { class: "dim" }, words ? "No table matches." : "There are no tables but those of the system; type system to see these."));
    body.find(row => row.dataset.table === focused)?.focus({ preventScroll: true });
    const chosen = all.find(isChosen);
    if (!chosen) { [this.picture, this.why, this.tombstones].forEach(of => of.replaceChildren()); return; }
    const { keyspace, table: name } = chosen;
    const [files, explained, tombs] = await Promise.all([json(query("/v1/sstableinfo", { keyspace, tables: name })), json(query("/v1/compactions/explain", { keyspace, table: name })), json(query("/v1/tombstones", { keyspace, table: name }))]);
    const sstables = files.find(of => of.table === name)?.sstables || [];
    this.picture.replaceChildren(h("p", { class: "dim" }, `${keyspace}.${name}: ${sstables.length} SSTables, ${bytes(chosen.space_used_live)}, ${chosen.compaction_strategy}`), drawSSTables(chosen, sstables));
    this.why.textContent = explained.map(of => `shard ${of.shard}: ${of.explanation}${of.waits.length ? `\n  waits for: ${of.waits.join("; ")}` : ""}${of.backlog_bytes ? `\n  backlog: ${bytes(of.backlog_bytes)}${of.backlog_ends_s === null ? "" : `, ends in ${duration(of.backlog_ends_s)}`}` : ""}`).join("\n\n");
    const rows = tombs.sstables.map(of => [of.sstable, count(of.tombstones), count(of.droppable), of.kept_because.join("; "), of.freed_by]);
    this.tombstones.replaceChildren(h("p", { class: "dim" }, `Grace period ${duration(tombs.gc_grace_s)}, mode ${tombs.mode}`), table([["SSTable"], ["Tombstones"], ["Droppable"], ["Kept because", "reason"], ["Freed by", "reason"]], rows, "No SSTable has tombstones."));
  },
};

// Rows of the picture: levels, windows of time, or tiers of similar size. The area of a box is the size of its SSTable.
function drawSSTables(stats, sstables) {
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
  const [width, left] = [900, 150];
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
  const picture = svg("svg", { viewBox: `0 0 ${width} ${y}`, role: "img", "aria-label": `${sstables.length} SSTables by ${[...rows.keys()].join(", ")}` }, parts);
  return h("div", {}, picture, h("p", { class: "dim" }, "Area: size on disk. Strong color: the newest writes. Point at a box for its figures."));
}

const compactionCharts = chartsOf(
  new Chart("Merged, by direction", bytesPerSecond, (a, b, s) => new Map([["read", rates(a, b, s, "messina_compaction_manager_read_bytes_total").get("") || 0], ["written", rates(a, b, s, "messina_compaction_manager_written_bytes_total").get("") || 0]])),
  new Chart("Backlog of compactions", value => value.toPrecision(3), (a, b) => new Map([...sums(b, "scylla_compaction_manager_backlog", "shard")].map(([shard, value]) => [`shard ${shard}`, value]))),
);
const compactions = {
  charts: compactionCharts.charts,
  show() {
    this.running = wide("Running"); this.pending = card("Pending"); this.ended = wide("Ended");
    return [this.running, ...compactionCharts.roots, this.pending, this.ended];
  },
  async update() {
    compactionCharts.update();
    const [list, past] = await Promise.all([json("/v1/compactions"), json("/v1/compactions/history")]);
    const progress = of => h("div", { class: "bar", role: "progressbar", "aria-valuenow": Math.round(100 * of.completed_bytes / Math.max(1, of.total_bytes)), "aria-valuemin": 0, "aria-valuemax": 100 }, h("span", { style: `width:${100 * of.completed_bytes / Math.max(1, of.total_bytes)}%;background:var(--accent)` }));
    this.running.replaceChildren(h("h2", {}, `Running (${list.running.length}); completed ${list.completed}, failed ${list.failed}, stopped ${list.stopped}`),
      table([["Table"], ["Kind", "text"], ["Reason", "reason"], ["Progress", "text"], ["Read"], ["Of"], ["Rate"]], list.running.map(of => [`${of.keyspace}.${of.table}`, of.kind, of.reason, progress(of), bytes(of.completed_bytes), bytes(of.total_bytes), of.running_us ? bytesPerSecond(of.completed_bytes / (of.running_us / 1e6)) : "–"]), "No compaction is running."),
      ...(list.last_error ? [h("p", { class: "bad" }, `Last error: ${list.last_error}`)] : []));
    this.pending.replaceChildren(h("h2", {}, "Pending"), table([["Table"], ["Jobs"]], list.pending.map(of => [`${of.keyspace}.${of.table}`, of.jobs]), "Nothing is pending."));
    const rows = past.slice(-60).reverse().map(of => [clock(of.compacted_at_ms), `${of.keyspace}.${of.table}`, of.kind, of.reason, of.sstables_in, bytes(of.bytes_in), bytes(of.bytes_out), micros(of.took_us)]);
    this.ended.replaceChildren(h("h2", {}, "Ended, the last 60"), table([["Time"], ["Table", "text"], ["Kind", "text"], ["Reason", "reason"], ["SSTables"], ["Bytes in"], ["Bytes out"], ["Took"]], rows, "No compaction has ended."));
  },
};

const memoryCharts = chartsOf(new Chart("Memory, by class", bytes, (a, b) => sums(b, "messina_memory_class_bytes", "class")));
const memory = {
  charts: memoryCharts.charts,
  show() { this.shards = wide("By shard"); return [...memoryCharts.roots, this.shards]; },
  async update() {
    memoryCharts.update();
    const used_memory = await json("/v1/memory");
    const share = used_memory.budget_bytes / Math.max(1, used_memory.shards.length);
    const shards = used_memory.shards.map((classes, shard) => {
      const used = classes.reduce((sum, of) => sum + of.bytes, 0);
      return h("div", {}, h("p", { class: "dim" }, `Shard ${shard}: ${bytes(used)} of ${bytes(share)}`),
        h("div", { class: "bar" }, classes.map((of, at) => h("span", { title: `${of.class}: ${bytes(of.bytes)}`, style: `width:${100 * of.bytes / share}%;background:${COLORS[at % COLORS.length]}` }))),
        table([["Class"], ["Bytes"], ["Limit"]], classes.map((of, at) => [h("span", { class: "legend" }, h("span", {}, h("i", { style: `background:${COLORS[at % COLORS.length]}` }), of.class)), bytes(of.bytes), of.limit_bytes === null ? "–" : bytes(of.limit_bytes)]), "No classes."));
    });
    this.shards.replaceChildren(h("h2", {}, `By shard; the process has ${bytes(used_memory.resident_bytes)} of physical memory, the option memory is ${bytes(used_memory.budget_bytes)}`), ...shards);
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
    this.model.replaceChildren(h("h2", {}, `The disk of ${model.data_dir}`), tiles([
      ["Reads, greatest", rate(model.read_iops, perSecond)], ["Read, greatest", rate(model.read_bandwidth, bytesPerSecond)], ["Writes, greatest", rate(model.write_iops, perSecond)], ["Written, greatest", rate(model.write_bandwidth, bytesPerSecond)],
      ["Configured", given ? `${perSecond(given.read_iops)}, ${bytesPerSecond(given.read_bandwidth)}; ${perSecond(given.write_iops)}, ${bytesPerSecond(given.write_bandwidth)}` : "no io_properties_file"],
    ]), drawPlane(model));
  },
};

// The plane of reads per second and bytes written per second, colored by the latency of reads; a ring shows the last sample.
function drawPlane(model) {
  if (!model.cells.length) return h("p", { class: "dim" }, "Nothing was observed yet.");
  const [columns, rows] = [Math.max(model.columns, 8), Math.max(model.rows, 8)];
  const [left, bottom, width, height] = [70, 28, 640, 300];
  const [w, t] = [width / columns, height / rows];
  const slowest = Math.max(...model.cells.map(of => of.p95_us), 1);
  const parts = [];
  for (const of of model.cells) {
    const heat = Math.log1p(of.p95_us) / Math.log1p(slowest);
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
  const label = (x, y, text, anchor) => { const of = svg("text", { x, y, "text-anchor": anchor || "start" }); of.textContent = text; return of; };
  parts.push(label(left - 6, height, "0", "end"), label(left - 6, 11, `${count(rows * model.reads_s_step)} reads/s`, "end"), label(left, height + 16, "0"), label(left + width, height + 16, `${bytes(columns * model.write_bytes_s_step)}/s written`, "end"));
  return h("div", {}, svg("svg", { viewBox: `0 0 ${left + width + 10} ${height + bottom}`, role: "img", "aria-label": "Latency of reads by reads and bytes written per second" }, parts), h("p", { class: "dim" }, "Color: 95 % of the reads in that load took at most this, from blue (short) to red (long). The ring: the last two seconds."));
}

const readCharts = chartsOf(
  new Chart("Running and waiting reads", count, (a, b) => new Map([["running", sums(b, "scylla_database_active_reads").get("") || 0], ["waiting", sums(b, "scylla_database_queued_reads").get("") || 0]])),
  new Chart("Rows read per second", count, (a, b, s) => new Map([["rows", rates(a, b, s, "scylla_cql_rows_read").get("") || 0]])),
);
const reads = {
  charts: readCharts.charts,
  show() { this.pools = card("Pools"); this.clients = card("Clients"); this.text = h("pre", { tabindex: "0" }); return [...readCharts.roots, this.pools, this.clients, wide("Reads by semaphore", this.text)]; },
  async update() {
    readCharts.update();
    const [pools, clients, text] = await Promise.all([json("/v1/pools"), json("/v1/clients"), ask("/v1/reads").then(answer => answer.text())]);
    this.pools.replaceChildren(h("h2", {}, "Pools"), table([["Pool"], ["Active"], ["Pending"], ["Completed"], ["Blocked"]], pools.pools.map(of => [of.name, of.active, of.pending, count(of.completed), of.blocked]), "No pools."));
    this.clients.replaceChildren(h("h2", {}, "Clients"), table([["Address"], ["Driver", "text"], ["Requests"]], clients.map(of => [`${of.address}:${of.port}`, [of.driver_name, of.driver_version].filter(Boolean).join(" ") || "–", count(of.requests ?? 0)]), "No client is connected."));
    this.text.textContent = text || "No reads.";
  },
};

// --- the loop ----------------------------------------------------------------------------------------------------------------

const sections = { overview, tables, compactions, memory, disk, reads };
const main = document.getElementById("main"), state = document.getElementById("node");
let current = null, isPaused = false, isBusy = false;

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
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const name = Object.keys(sections)[Number(event.key) - 1];
  if (name) location.hash = name;
  if (event.key === "p") { isPaused = !isPaused; state.textContent = isPaused ? "Paused; p continues" : "…"; if (!isPaused) tick(); }
});
choose();
tick();
setInterval(tick, PERIOD_MS);
