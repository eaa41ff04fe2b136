// Views of what the coordination store holds: asked for again whenever the server says that it changed.

import { ask, h, jobwire, say } from "./dom.js";
import { serverTime } from "./format.js";
import { Live } from "./live.js";

const LEAST_MS = 400;  // between two askings, however much happens

/** Calls `refresh` (async) at the start, at each change of the store, and again each `seconds` if given. */
export class Following {
  constructor(shell, refresh, seconds = 0) {
    this.refresh = refresh;
    this.shell = shell;
    this.seconds = seconds;
    const heard = (data) => shell.trouble(data.trouble, "The server cannot read the agents' store");
    this.live = new Live("/api/store/stream", {
      changed: (data) => { heard(data); this.again(); },
      alive: heard,
    }, (state) => shell.state(state));
  }

  start() {
    this.on = true;
    this.live.start();
    if (this.seconds) this.timer = setInterval(() => this.again(), this.seconds * 1000);
  }

  stop() {
    this.on = false;
    this.live.stop();
    clearInterval(this.timer);
    clearTimeout(this.waiting);
  }

  /** Ask once more; while one asking is under way, once after it. */
  async again() {
    if (this.busy) { this.missed = true; return; }
    this.busy = true;
    this.missed = false;
    try {
      await this.refresh();
    } finally {
      this.waiting = setTimeout(() => {
        this.busy = false;
        if (this.missed && this.on) this.again();
      }, LEAST_MS);
    }
  }
}

/** Return what the server answers, with its time noted. */
export async function look(path, values = {}) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  const data = await ask(query.size ? `${path}?${query}` : path);
  serverTime(data.now);
  return data;
}

export function act(path, body) {
  return ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** Show in `note` why something cannot be read; `hint` says what helps. */
export function cannot(note, error) {
  note.hidden = false;
  note.replaceChildren(error.message, error.hint ? h("span", { class: "hint" }, error.hint) : "");
}

/** Say in `node` why something was not done. */
export function refused(node, error) {
  node.hidden = false;
  say(node, error.hint ? `${error.message} (${error.hint})` : error.message);
}

/** Show in `note` that there is nothing yet, with the command that begins. */
export function nothingYet(note, words, command) {
  note.hidden = false;
  note.replaceChildren(words, h("code", { class: "block" }, jobwire(command)));
}

/** Bring the children of `parent` into the order of `nodes`, moving only those that stand elsewhere. */
export function place(parent, nodes) {
  const wanted = new Set(nodes);
  for (const node of [...parent.children]) if (!wanted.has(node)) node.remove();
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

/** Return [parts, item] of each item in their order: what was made for one stays what it is, until the item is gone. */
export function kept(made, items, key, make) {
  const wanted = new Map(items.map((item) => [key(item), item]));
  for (const name of made.keys()) if (!wanted.has(name)) made.delete(name);
  return [...wanted].map(([name, item]) => {
    if (!made.has(name)) made.set(name, make(item));
    return [made.get(name), item];
  });
}

/** Go to the next or the previous title of a list. */
export function moveIn(list, step) {
  const links = [...list.querySelectorAll("a.title")];
  const next = links[Math.min(Math.max(links.indexOf(document.activeElement) + step, 0), links.length - 1)];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
}

/** Return a table's row with its cells: column -> what is in it. */
export function tableRow(cells, props = {}) {
  return h("tr", props, Object.entries(cells).map(([name, children]) => h("td", { class: name }, ...[children].flat())));
}

/** A table of rows that stay what they are: `make(row)` gives {node, ...}, `fill(parts, row)` writes it, `times(parts, row)` its times. */
export class Rows {
  constructor(columns, name, { make, fill, times, key }) {
    this.make = make;
    this.fill = fill;
    this.times = times;
    this.key = key;
    this.parts = new Map();
    this.body = h("tbody", { onclick: (event) => {
      const row = event.target.closest("tr:not(.still)");
      if (row && !event.target.closest("a, button") && !getSelection().toString()) row.querySelector("a.title").click();
    } });
    this.node = h("table", { class: `fleet ${name}` }, h("thead", {}, h("tr", {}, columns.map(([column, title]) => h("th", { scope: "col", class: column }, title)))), this.body);
  }

  show(rows) {
    const shown = kept(this.parts, rows, this.key, this.make);
    for (const [parts, row] of shown) this.#write(parts, row);
    place(this.body, shown.map(([parts]) => parts.node));
    this.node.hidden = rows.length === 0;
  }

  /** Write a row that has changed, where it is shown. */
  update(row) {
    const parts = this.parts.get(this.key(row));
    if (parts) this.#write(parts, row);
  }

  #write(parts, row) {
    if (parts.row === row) return;
    parts.row = row;
    this.fill(parts, row);
    this.times(parts, row);
  }

  tick() {
    for (const parts of this.parts.values()) this.times(parts, parts.row);
  }
}

/** Buttons of which some are chosen, each with a count; `choose(name)` hears which is pressed. */
export class Choices {
  constructor(label, names, choose) {
    this.chips = new Map(Object.entries(names).map(([name, [title, group]]) => [name, h("button", { type: "button", class: "chip", data: { group }, "aria-pressed": "false", onclick: () => choose(name) }, h("span", {}, title), h("b", {}, "0"))]));
    this.node = h("div", { class: "chips", role: "group", "aria-label": label }, [...this.chips.values()]);
  }

  show(chosen, counts) {
    for (const [name, chip] of this.chips) {
      chip.setAttribute("aria-pressed", String(chosen.includes(name)));
      say(chip.lastChild, String(counts[name || "all"] ?? 0));
    }
  }
}
