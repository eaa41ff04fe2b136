// File locks: who holds what until when, who waits, and who waits for whom.

import { badge, setState } from "./fleet.js";
import { changed, h, say } from "./dom.js";
import { ago, counted, fullTime, now, words } from "./format.js";
import { MOST_NODES, drawGraph } from "./graph.js";
import { Rows, tableRow } from "./store.js";
import { ListView } from "./views.js";

const HELD = [["state", "Mode"], ["job", "What"], ["last", "Held by"], ["unread", "For"], ["when", "Ends in"]];
const WAITING = [["state", "Mode"], ["job", "Waits for"], ["last", "Who waits, and for whom"], ["unread", ""], ["when", "Since"]];

export class LocksView extends ListView {
  constructor(root, shell) {
    super(root, shell, { name: "locks", seconds: 5 });
    this.circles = h("ul", { class: "circles", hidden: true });
    this.graph = h("div", { class: "graph-box", hidden: true });
    this.held = new Rows(HELD, "agents", { key: (row) => `${row.run} ${row.target} ${row.agent}`, make, fill: fillHeld, times: heldTimes });
    this.waiting = new Rows(WAITING, "agents", { key: (row) => `${row.agent} ${row.since}`, make, fill: fillWaiting, times: waitTimes });
    this.waitTitle = h("h2", {}, "Waiting");
    this.graphTitle = h("h2", {}, "Who waits for whom");
    this.tables = [this.held, this.waiting];
  }

  parts() {
    return [h("div", { class: "job-view" }, this.headline, this.note, this.circles, this.held.node, this.waitTitle, this.waiting.node, this.graphTitle, this.graph)];
  }

  hide() {
    super.hide();
    for (const node of [this.waitTitle, this.graphTitle, this.graph, this.circles]) node.hidden = true;
    this.graphKey = "";
  }

  show(data) {
    const { locks = [], waiters = [], circles = [] } = data;
    this.held.show(locks);
    this.waiting.show(waiters);
    this.waitTitle.hidden = waiters.length === 0;
    this.beginWith([...locks, ...waiters], "Nobody holds a file lock. Take one:", "lock acquire --agent builder src/app.py");
    const more = data.held > locks.length ? ` (${locks.length} shown)` : "";
    say(this.headline, `${counted(data.held ?? 0, "lock", "locks")} held${more} · ${data.waiting ?? 0} waiting${circles.length ? ` · ${circles.length} deadlocked` : ""}`);
    this.circles.hidden = circles.length === 0;
    this.circles.replaceChildren(...circles.map((circle) => h("li", {}, h("b", {}, "Deadlock: "), [...circle, circle[0]].join(" → "))));
    this.#draw(data);
  }

  #draw({ waiters = [], asked = [], circles = [], locks = [] }) {
    const bad = new Set(circles.flatMap((circle) => circle.map((name, number) => `${name}\n${circle[(number + 1) % circle.length]}`)));
    const pairs = new Map();
    for (const row of waiters) for (const other of row.before) pairs.set(`${row.agent}\n${other}`, [row.agent, other]);
    for (const [waiter, awaited] of asked) if (waiters.length) pairs.set(`${waiter}\n${awaited}`, [waiter, awaited]);
    const names = [...new Set([...pairs.values()].flat())].slice(0, MOST_NODES);
    this.graphTitle.hidden = this.graph.hidden = names.length === 0;
    if (!changed(this, "graphKey", [[...pairs.keys()], [...bad]])) return;
    const holds = new Map(names.map((name) => [name, locks.filter((row) => row.agent === name).map((row) => row.target)]));
    const circled = new Set(circles.flat());
    const nodes = names.map((name) => ({ id: name, text: name, sub: holds.get(name).length ? `holds ${holds.get(name).join(", ")}` : "holds nothing", group: circled.has(name) ? "failed" : waiters.some((row) => row.agent === name) ? "waiting" : "running", href: `/conversations?agent=${encodeURIComponent(name)}` }));
    this.graph.replaceChildren(drawGraph(nodes, [...pairs].map(([pair, [from, to]]) => [from, to, bad.has(pair)]), "Who waits for whom"));
  }
}

function make() {
  const parts = { badge: badge(), title: h("span", { class: "title" }), sub: h("span", { class: "session" }), who: h("a", { class: "title", "data-nav": true }), note: h("span", { class: "detail" }), length: h("span"), when: h("span") };
  parts.node = tableRow({ state: parts.badge, job: [parts.title, h("span", { class: "sub" }, parts.sub)], last: [parts.who, parts.note], unread: parts.length, when: parts.when }, { class: "still" });
  return parts;
}

function fillLock(parts, row, { group, title }) {
  setState(parts, { group, word: row.mode });
  say(parts.title, title);
  say(parts.sub, row.run === "default" ? "" : `run ${row.run}`);
  say(parts.who, row.agent);
  parts.who.setAttribute("href", `/conversations?agent=${encodeURIComponent(row.agent)}`);
}

function fillHeld(parts, row) {
  const group = row.broken_by ? "failed" : row.mode === "shared" ? "pending" : "running";
  fillLock(parts, row, { group, title: row.target });
  say(parts.note, [row.job ? `job ${row.job}` : "", row.broken_by ? `${row.broken_by} asks to break it: ${row.reason}` : ""].filter(Boolean).join(" · "));
}

function heldTimes(parts, row) {
  say(parts.length, words(now() - row.since));
  say(parts.when, words(row.until - now()).split(" ")[0]);
  parts.when.title = `until ${fullTime(row.until)}`;
}

function fillWaiting(parts, row) {
  fillLock(parts, row, { group: "waiting", title: row.targets.join(", ") });
  say(parts.note, row.before.length ? `after ${row.before.join(", ")}` : "its turn now");
}

function waitTimes(parts, row) {
  say(parts.when, ago(row.since).replace(" ago", ""));
}
