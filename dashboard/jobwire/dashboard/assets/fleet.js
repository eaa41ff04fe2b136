// The fleet: one row a job, what can be helped first.

import { changed, h, jobwire, mark, plain, s, say } from "./dom.js";
import { Live } from "./live.js";
import { ago, counted, fullTime, now, words } from "./format.js";
import { choiceButtons } from "./requests.js";
import { Choices, Rows, moveIn, tableRow } from "./store.js";
import { View } from "./views.js";

export const GROUPS = ["waiting", "stuck", "failed", "late", "running", "pending", "done"];
export const NAMES = {
  waiting: "waits for you", stuck: "stuck", failed: "failed", late: "late",
  running: "running", pending: "pending", done: "done",
};
const CHOICES = { "": ["All", ""], ...Object.fromEntries(GROUPS.map((group) => [group, [NAMES[group][0].toUpperCase() + NAMES[group].slice(1), group]])) };
// Drawn, because a font without the sign shows a box; 16 by 16, one stroke.
const ICON = {
  waiting: "M8 1.8 15 14H1Z M8 6v3.6 M8 11.8v.1", stuck: "M5.5 3v10 M10.5 3v10", failed: "M3.5 3.5l9 9 M12.5 3.5l-9 9",
  late: "M8 1.5a6.5 6.5 0 1 0 .01 0Z M8 4.5V8l2.5 2", running: "M4.5 2.5v11l8.5-5.5Z", pending: "M3 8h.1 M8 8h.1 M13 8h.1", done: "M2.5 8.5l4 4 7-9",
};
const PAGE = 1000;
// Drawn at once; the rest follows while the browser is idle, so that a thousand rows do not delay the first.
const FIRST = 60;
const PIECE = 150;
const idle = globalThis.requestIdleCallback ?? ((work) => setTimeout(work, 30));
const COLUMNS = [["state", "State"], ["job", "Job"], ["last", "Last word"], ["progress", "Progress"], ["idle", "Idle / limit"], ["age", "Age"], ["attempt", "Try"]];

/** Return the badge of a row; update it with `setBadge`. */
export function badge() {
  return h("span", { class: "badge" }, s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path")), h("span"));
}

export function setBadge(node, row) {
  if (node.dataset.group !== row.group) {
    node.dataset.group = row.group;
    node.firstChild.firstChild.setAttribute("d", ICON[row.group]);
  }
  say(node.lastChild, row.word ?? (row.group === "done" ? row.status : NAMES[row.group]));
}

/** Mark a row or a card as what its badge says. */
export function setState(parts, state) {
  mark(parts.node, "group", state.group);
  setBadge(parts.badge, state);
}

/** Return how long a job has said nothing, or null where it need not speak. */
export function idleOf(row) {
  if (row.status !== "running") return null;
  if (row.asks.length) return now() - row.asks[0].asked;
  return now() - (row.last ?? row.started ?? row.created);
}

/** Return what to say of a job's silence: for how long against its limit, or when it ended. */
export function idleText(row) {
  if (row.finished) return `ended ${ago(row.finished)}`;
  const idle = idleOf(row);
  if (idle === null) return "";
  // While it waits for a person no limit counts.
  return row.group === "waiting" || row.limit === null ? words(idle) : `${words(idle)} / ${words(row.limit)}`;
}

export class FleetView extends View {
  constructor(root, shell) {
    super(root, shell);
    this.rows = new Map();
    this.limit = PAGE;
    this.drawn = FIRST;
    this.counts = {};
    this.known = false;
    this.following = new Live("/api/stream", {
      fleet: (data) => this.#all(data),
      update: (data) => this.#update(data),
    }, (state) => shell.state(state));
    this.#build();
  }

  mount() {
    this.root.replaceChildren(this.headline, this.filters, this.table.node, this.note, this.more);
    this.#readAddress();
    super.mount();
    this.#draw();
  }

  tick() {
    this.table.tick();
  }

  // -- keyboard ---------------------------------------------------------------------------------

  key(event) {
    if (event.key === "/") { this.text.focus(); this.text.select(); return true; }
    if (event.key === "j" || event.key === "k") { moveIn(this.table.body, event.key === "j" ? 1 : -1); return true; }
    if (event.key === "Escape") { this.#filter({ groups: new Set(), session: "", text: "" }); return true; }
    if (/^[0-7]$/.test(event.key)) {
      this.#choose(event.key === "0" ? "" : GROUPS[Number(event.key) - 1]);
      return true;
    }
    return false;
  }

  // -- what came ----------------------------------------------------------------------------------

  #all(data) {
    this.rows = new Map(data.rows.map((row) => [row.id, row]));
    this.known = true;
    this.#heard(data);
    this.#draw();
  }

  #update(data) {
    let moved = data.gone.length > 0;
    for (const id of data.gone) this.rows.delete(id);
    for (const row of data.rows) {
      const before = this.rows.get(row.id);
      this.rows.set(row.id, row);
      if (!before || before.rank !== row.rank || before.place !== row.place
        || this.#shown(before) !== this.#shown(row) || before.session !== row.session) moved = true;
      else this.table.update(row);
    }
    this.#heard(data);
    if (moved) this.#draw();
  }

  #heard(data) {
    this.counts = data.counts;
    this.shell.counts(data.counts);
    this.shell.trouble(data.trouble);
    this.#drawChoices();
    this.#drawHeadline();
  }

  #drawChoices() {
    this.choices.show(this.groups.size ? [...this.groups] : [""], { ...this.counts, all: this.rows.size });
  }

  #drawHeadline() {
    const parts = headline(this.counts, this.rows.size);
    if (!changed(this, "headlineKey", parts)) return;
    this.headline.replaceChildren(...parts.flatMap(([group, text], number) => [number ? " · " : "", group ? h("a", { href: `/?state=${group}`, "data-nav": true, data: { group } }, text) : text]));
  }

  // -- filter, kept in the address ---------------------------------------------------------------

  #readAddress() {
    const query = new URLSearchParams(location.search);
    this.groups = new Set((query.get("state") ?? "").split(",").filter((group) => GROUPS.includes(group)));
    this.session = query.get("session") ?? "";
    this.words = query.get("q") ?? "";
    this.text.value = this.words;
    this.limit = PAGE;
  }

  #filter({ groups = this.groups, session = this.session, text = this.words }) {
    this.groups = groups;
    this.session = session;
    this.words = text;
    this.limit = PAGE;
    if (this.text.value !== text) this.text.value = text;
    const query = new URLSearchParams();
    if (groups.size) query.set("state", GROUPS.filter((group) => groups.has(group)).join(","));
    if (session) query.set("session", session);
    if (text) query.set("q", text);
    history.replaceState(null, "", query.size ? `/?${query}` : "/");
    this.#draw();
  }

  #choose(group) {
    const groups = new Set(this.groups);
    if (!group) groups.clear();
    else if (!groups.delete(group)) groups.add(group);
    this.#filter({ groups });
  }

  #shown(row) {
    if (this.groups.size && !this.groups.has(row.group)) return false;
    if (this.session && row.session !== this.session) return false;
    const text = this.words.toLowerCase();
    return !text || [row.id, row.title, row.detail, row.session].some((part) => part.toLowerCase().includes(text));
  }

  // -- drawing -----------------------------------------------------------------------------------

  #build() {
    this.headline = h("h1", { class: "headline", "aria-live": "polite" }, "Reading the fleet …");
    this.choices = new Choices("State", CHOICES, (group) => this.#choose(group));
    this.text = h("input", { type: "search", placeholder: "Find a job, a title, a word …", "aria-label": "Find by text", autocomplete: "off", spellcheck: "false",
      oninput: () => this.#filter({ text: this.text.value }),
      onkeydown: (event) => this.#searchKey(event) });
    this.select = h("select", { "aria-label": "Session", onchange: () => this.#filter({ session: this.select.value }) });
    this.filters = h("section", { class: "filters", "aria-label": "Filter" }, this.choices.node, h("div", { class: "find" }, this.text, this.select));
    this.table = new Rows(COLUMNS, "jobs", { key: (row) => row.id, make, fill, times });
    this.note = h("p", { class: "empty", hidden: true });
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => { this.limit += PAGE; this.#draw(); } });
  }

  #searchKey(event) {
    if (event.key === "Escape") { this.#filter({ text: "" }); this.text.blur(); event.stopPropagation(); }
    if (event.key !== "Enter") return;
    const id = this.text.value.trim();
    if (/^[0-9a-f]{8}$/.test(id)) this.shell.go(`/jobs/${id}`);  // also one that left the fleet long ago
    else moveIn(this.table.body, 1);
  }

  #draw() {
    this.#drawChoices();
    this.#drawSessions();
    const found = [...this.rows.values()].filter((row) => this.#shown(row));
    found.sort((a, b) => a.rank - b.rank || a.place - b.place || (a.id < b.id ? -1 : 1));
    const wanted = Math.min(found.length, this.limit);
    const shown = found.slice(0, Math.min(wanted, this.drawn));
    this.table.show(shown);
    if (shown.length < wanted && !this.growing) {
      this.growing = true;
      idle(() => { this.growing = false; this.drawn += PIECE; this.#draw(); });
    }
    this.more.hidden = found.length <= this.limit;
    say(this.more, `Show ${Math.min(PAGE, found.length - this.limit)} more of ${found.length}`);
    this.note.hidden = shown.length > 0 || !this.known;
    if (!this.note.hidden) this.#drawNote();
    this.table.tick();
  }

  #drawNote() {
    if (this.rows.size) {
      this.note.replaceChildren("No job matches. ", h("button", { type: "button", onclick: () => this.#filter({ groups: new Set(), session: "", text: "" }) }, "Show all jobs"));
    } else {
      this.note.replaceChildren("No jobs here yet. Start one:", h("code", { class: "block" }, jobwire("run -- make test")));
    }
  }

  #drawSessions() {
    const sessions = [...new Set([...this.rows.values()].map((row) => row.session).filter(Boolean))].sort();
    if (this.session && !sessions.includes(this.session)) sessions.push(this.session);
    if (changed(this, "sessionsKey", sessions)) {
      this.select.replaceChildren(h("option", { value: "" }, "All sessions"), ...sessions.map((name) => h("option", { value: name }, name)));
    }
    this.select.value = this.session;
  }
}

function make({ id }) {
  const parts = {
    badge: badge(), title: h("a", { class: "title", href: `/jobs/${id}`, "data-nav": true }), session: h("span", { class: "session" }),
    detail: h("span", { class: "detail" }), why: h("span", { class: "why" }), asks: h("div", { class: "asks" }),
    bar: h("progress", { max: "100" }), percent: h("span", { class: "percent" }), idle: h("span"), age: h("span"), attempt: h("span"),
  };
  parts.node = tableRow({
    state: parts.badge, job: [parts.title, h("span", { class: "sub" }, h("code", {}, id), parts.session)], last: [parts.why, parts.detail, parts.asks],
    progress: [parts.bar, parts.percent], idle: parts.idle, age: parts.age, attempt: parts.attempt,
  }, { data: { id } });
  return parts;
}

function fill(parts, row) {
  setState(parts, row);
  say(parts.title, row.title || "untitled job");
  say(parts.session, row.session);
  say(parts.why, row.why);
  const word = row.asks[0]?.named ? row.asks[0].text : row.detail;
  say(parts.detail, word);
  parts.detail.title = plain(word);
  fillAsks(parts, row);
  parts.bar.hidden = row.percent === null || row.group === "done";
  if (row.percent !== null) parts.bar.value = row.percent;
  parts.bar.setAttribute("aria-label", `progress of ${row.id}`);
  say(parts.percent, row.percent === null || row.group === "done" ? "" : `${Math.round(row.percent)}%`);
  const most = row.max_attempts ? `/${row.max_attempts}` : "";
  say(parts.attempt, `${row.attempt}${most}`);
  mark(parts.attempt, "again", String(row.attempt > 1));
}

/** Show the first request's choices; kept as they are while it is the first, for whoever is about to press. */
function fillAsks(parts, row) {
  const [first, ...others] = row.asks;
  if (!changed(parts, "asksKey", [first?.id, others.length])) return;
  const problem = (text) => { say(parts.why, text); };
  const more = others.length ? h("a", { href: `/jobs/${row.id}`, "data-nav": true }, `and ${others.length} more`) : null;
  parts.asks.replaceChildren(...(first ? choiceButtons(row.id, first, { problem }) : []), ...(more ? [more] : []));
}

function times(parts, row) {
  const idle = idleOf(row);
  say(parts.idle, idleText(row));
  mark(parts.idle, "near", String(idle !== null && row.limit !== null && row.group === "running" && idle > row.limit * 0.75));
  say(parts.age, words(now() - row.created));
  parts.age.title = `registered ${fullTime(row.created)}`;
}

/** Return the sentence that tells at a glance whether anybody is needed, as [group, words] parts. */
function headline(counts, total) {
  if (!total) return [["", "No jobs yet"]];
  const parts = GROUPS.slice(1, 4).filter((group) => counts[group]).map((group) => [group, `${counts[group]} ${group}`]);
  if (counts.waiting) parts.unshift(["waiting", `${counted(counts.waiting, "job waits", "jobs wait")} for you`]);
  if (parts.length) return parts;
  return [["", counts.running ? `All well: ${counts.running} running` : "All well: nothing is running"]];
}
