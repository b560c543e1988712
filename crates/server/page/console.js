"use strict";
// The console of the page: a statement is sent to the node, which runs it as a client of its own CQL port. Loaded before page.js,
// whose functions it uses when it is shown.

const consoleSection = {
  charts: [], root: null, last: null, isRunning: false,
  show() {
    if (!this.root) this.make();
    this.ask();
    return [this.root, this.result];
  },
  async update() { /* nothing is asked again by itself */ },

  make() {
    const field = (label, input) => h("label", {}, label, input);
    this.statement = h("textarea", { rows: "5", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": "CQL statement", placeholder: "SELECT * FROM keyspace.table LIMIT 20",
      onkeydown: event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(null); } } });
    this.keyspace = h("input", { type: "text", size: "14", spellcheck: "false", autocapitalize: "off", autocomplete: "off", placeholder: "none" });
    this.role = h("input", { type: "text", size: "14", autocapitalize: "off", autocomplete: "off" });
    this.password = h("input", { type: "password", size: "14", autocomplete: "off" });
    this.login = h("div", { class: "fields", hidden: true }, field("Role", this.role), field("Password", this.password));
    this.trace = h("input", { type: "checkbox" });
    this.button = h("button", { type: "button", onclick: () => this.run(null) }, "Run");
    this.may = h("p", { class: "dim" }, "…");
    this.root = wide("Console", this.may, this.statement,
      h("div", { class: "fields" }, this.button, field("Keyspace", this.keyspace), h("label", { class: "check" }, this.trace, "Trace")), this.login);
    this.result = wide("Result", h("p", { class: "dim" }, "No statement has run. Ctrl and Enter run the statement."));
  },

  // Learns what the node permits.
  async ask() {
    try {
      const state = await json("/v1/console");
      this.login.hidden = !state.asks_role;
      this.button.disabled = state.reason !== null;
      this.may.className = state.reason === null ? "dim" : "bad";
      this.may.textContent = state.reason ?? `${state.may_change ? "Every statement is run" : "Only SELECT and DESCRIBE are run: without api_password_file the page changes nothing"}${state.asks_role ? "; it runs as the role that you name." : "."}`;
    } catch (error) {
      problem(error);
    }
  },

  // Runs the statement of the box, or the next page of the last one.
  async run(next) {
    if (this.isRunning || this.button.disabled) return;
    const query = next ?? { statement: this.statement.value, keyspace: this.keyspace.value || null, role: this.login.hidden ? null : this.role.value, password: this.login.hidden ? "" : this.password.value, trace: this.trace.checked };
    if (!query.statement.trim()) { this.statement.focus(); return; }
    this.isRunning = true;
    this.button.textContent = "Running …";
    try {
      const answer = await fetch("/v1/console", { method: "POST", headers: { "content-type": "application/json", accept: "application/json", "x-requested-by": "page" }, body: JSON.stringify(query) });
      const text = await answer.text();
      let value = null;
      try { value = JSON.parse(text); } catch { /* the body is not JSON */ }
      if (answer.ok && value) this.showResult(query, value);
      else this.showError(query.statement, value?.error ?? `${answer.status} ${text}`);
    } catch {
      this.showError(query.statement, "The node does not answer.");
    } finally {
      this.isRunning = false;
      this.button.textContent = "Run";
    }
  },

  showResult(query, value) {
    const head = value.columns.map(of => h("th", { scope: "col", class: "text" }, of.name, h("small", {}, of.type)));
    const cell = text => text === null ? h("td", { class: "text dim" }, "null") : h("td", { class: "text value" }, text);
    const parts = [h("h2", {}, "Result"), h("p", { class: "dim" }, `${value.done !== null ? value.done : `${value.rows.length} ${value.rows.length === 1 ? "row" : "rows"}${value.paging_state === null ? "" : ", and more"}`}; ${micros(value.took_us)}`)];
    for (const warning of value.warnings) parts.push(h("p", { class: "bad" }, warning));
    if (value.columns.length) parts.push(h("div", { class: "scroll", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, value.rows.map(row => h("tr", {}, row.map(cell)))))));
    if (value.paging_state !== null) parts.push(h("p", {}, h("button", { type: "button", onclick: () => this.run({ ...query, paging_state: value.paging_state }) }, "Next page")));
    if (value.trace) {
      parts.push(h("h2", {}, `Trace${value.trace.duration_us === null ? "" : `, ${micros(value.trace.duration_us)}`}`));
      if (value.trace.problem) parts.push(h("p", { class: "bad" }, value.trace.problem));
      parts.push(table([["After"], ["Activity", "reason"], ["Thread", "text"]], value.trace.events.map(of => [of.at_us === null ? "–" : micros(of.at_us), of.activity, of.thread]), "The trace has no events."));
    }
    this.result.replaceChildren(...parts);
  },

  // An error with a position shows the line with a mark below the character.
  showError(statement, text) {
    const parts = [h("h2", {}, "Result"), h("p", { class: "bad", role: "alert" }, text)];
    const place = /line (\d+):(\d+)/.exec(text);
    const line = place ? statement.split("\n")[Number(place[1]) - 1] : undefined;
    if (line !== undefined) parts.push(h("pre", { class: "place", tabindex: "0" }, `${line}\n${" ".repeat(Math.min(Number(place[2]), line.length))}^`));
    this.result.replaceChildren(...parts);
  },
};
