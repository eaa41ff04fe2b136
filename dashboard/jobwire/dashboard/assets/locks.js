// File locks: who holds what until when, who waits, and who waits for whom.

import { badge, setBadge } from "./fleet.js";
import { h, mark, say } from "./dom.js";
import { ago, fullTime, now, words } from "./format.js";
import { MOST_NODES, drawGraph } from "./graph.js";
import { Following, Rows, cannot, look, nothingYet } from "./store.js";

const HELD = [["state", "Mode"], ["job", "What"], ["last", "Held by"], ["unread", "For"], ["when", "Ends in"]];
const WAITING = [["state", "Mode"], ["job", "Waits for"], ["last", "Who waits, and for whom"], ["unread", ""], ["when", "Since"]];

export class LocksView {
  constructor(root, shell) {
    this.root = root;
    this.shell = shell;
    this.headline = h("h1", { class: "headline", "aria-live": "polite" }, "Reading the locks …");
    this.note = h("p", { class: "empty", hidden: true });
    this.circles = h("ul", { class: "circles", hidden: true });
    this.graph = h("div", { class: "graph-box", hidden: true });
    this.held = new Rows(HELD, "agents", { key: (row) => `${row.run} ${row.target} ${row.agent}`, make, fill: fillHeld });
    this.waiting = new Rows(WAITING, "agents", { key: (row) => `${row.agent} ${row.since}`, make, fill: fillWaiting });
    this.waitTitle = h("h2", {}, "Waiting");
    this.graphTitle = h("h2", {}, "Who waits for whom");
    this.following = new Following(shell, () => this.#refresh(), 5);
  }

  mount() {
    for (const node of [this.held.node, this.waiting.node, this.waitTitle, this.graphTitle]) node.hidden = true;
    this.root.replaceChildren(h("div", { class: "job-view" }, this.headline, this.note, this.circles, this.held.node, this.waitTitle, this.waiting.node, this.graphTitle, this.graph));
    this.following.start();
    this.timer = setInterval(() => { this.held.tick(heldTimes); this.waiting.tick(waitTimes); }, 1000);
  }

  unmount() {
    this.following.stop();
    clearInterval(this.timer);
  }

  key(event) {
    if (event.key === "j" || event.key === "k") { this.held.move(event.key === "j" ? 1 : -1); return true; }
    if (event.key !== "Escape") return false;
    this.shell.go("/");
    return true;
  }

  async #refresh() {
    try {
      const data = await look("/api/locks");
      const { locks = [], waiters = [], circles = [] } = data;
      this.held.show(locks);
      this.waiting.show(waiters);
      this.waitTitle.hidden = waiters.length === 0;
      this.note.hidden = locks.length + waiters.length > 0;
      if (!this.note.hidden) nothingYet(this.note, "Nobody holds a file lock. Take one:", "lock acquire --agent builder src/app.py");
      const more = data.held > locks.length ? ` (${locks.length} shown)` : "";
      say(this.headline, `${data.held ?? 0} ${data.held === 1 ? "lock" : "locks"} held${more} · ${data.waiting ?? 0} waiting${circles.length ? ` · ${circles.length} deadlocked` : ""}`);
      this.circles.hidden = circles.length === 0;
      this.circles.replaceChildren(...circles.map((circle) => h("li", {}, h("b", {}, "Deadlock: "), [...circle, circle[0]].join(" → "))));
      this.#draw(data);
    } catch (error) {
      for (const node of [this.held.node, this.waiting.node, this.waitTitle, this.graphTitle, this.graph, this.circles]) node.hidden = true;
      say(this.headline, "The locks cannot be read");
      cannot(this.note, error);
      this.graphKey = "";
    }
  }

  #draw({ waiters = [], asked = [], circles = [], locks = [] }) {
    const bad = new Set(circles.flatMap((circle) => circle.map((name, number) => `${name}\n${circle[(number + 1) % circle.length]}`)));
    const pairs = new Map();
    for (const row of waiters) for (const other of row.before) pairs.set(`${row.agent}\n${other}`, [row.agent, other]);
    for (const [waiter, awaited] of asked) if (waiters.length) pairs.set(`${waiter}\n${awaited}`, [waiter, awaited]);
    const names = [...new Set([...pairs.values()].flat())].slice(0, MOST_NODES);
    const key = JSON.stringify([[...pairs.keys()], [...bad]]);
    this.graphTitle.hidden = this.graph.hidden = names.length === 0;
    if (key === this.graphKey) return;
    this.graphKey = key;
    const holds = new Map(names.map((name) => [name, locks.filter((row) => row.agent === name).map((row) => row.target)]));
    const circled = new Set(circles.flat());
    const nodes = names.map((name) => ({ id: name, text: name, sub: holds.get(name).length ? `holds ${holds.get(name).join(", ")}` : "holds nothing", group: circled.has(name) ? "failed" : waiters.some((row) => row.agent === name) ? "waiting" : "running", href: `/conversations?agent=${encodeURIComponent(name)}` }));
    this.graph.replaceChildren(drawGraph(nodes, [...pairs].map(([pair, [from, to]]) => [from, to, bad.has(pair)]), "Who waits for whom"));
  }
}

function make() {
  const parts = { badge: badge(), title: h("span", { class: "title" }), sub: h("span", { class: "session" }), who: h("a", { class: "title", "data-nav": true }), note: h("span", { class: "detail" }), length: h("span"), when: h("span") };
  const cell = (name, ...children) => h("td", { class: name }, ...children);
  parts.node = h("tr", { class: "still" }, cell("state", parts.badge), cell("job", parts.title, h("span", { class: "sub" }, parts.sub)), cell("last", parts.who, parts.note), cell("unread", parts.length), cell("when", parts.when));
  return parts;
}

function fillHeld(parts, row) {
  const group = row.broken_by ? "failed" : row.mode === "shared" ? "pending" : "running";
  mark(parts.node, "group", group);
  setBadge(parts.badge, { group, word: row.mode });
  say(parts.title, row.target);
  say(parts.sub, row.run === "default" ? "" : `run ${row.run}`);
  say(parts.who, row.agent);
  parts.who.setAttribute("href", `/conversations?agent=${encodeURIComponent(row.agent)}`);
  say(parts.note, [row.job ? `job ${row.job}` : "", row.broken_by ? `${row.broken_by} asks to break it: ${row.reason}` : ""].filter(Boolean).join(" · "));
  heldTimes(parts, row);
}

function heldTimes(parts, row) {
  say(parts.length, words(now() - row.since));
  say(parts.when, words(row.until - now()).split(" ")[0]);
  parts.when.title = `until ${fullTime(row.until)}`;
}

function fillWaiting(parts, row) {
  mark(parts.node, "group", "waiting");
  setBadge(parts.badge, { group: "waiting", word: row.mode });
  say(parts.title, row.targets.join(", "));
  say(parts.sub, row.run === "default" ? "" : `run ${row.run}`);
  say(parts.who, row.agent);
  parts.who.setAttribute("href", `/conversations?agent=${encodeURIComponent(row.agent)}`);
  say(parts.note, row.before.length ? `after ${row.before.join(", ")}` : "its turn now");
  waitTimes(parts, row);
}

function waitTimes(parts, row) {
  say(parts.when, ago(row.since).replace(" ago", ""));
}
