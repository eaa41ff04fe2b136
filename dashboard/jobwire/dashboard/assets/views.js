// What the views share: beginning and end, keys, and what is said where the agents' store cannot be read.

import { h, say } from "./dom.js";
import { Choices, Following, cannot, look, moveIn, nothingYet } from "./store.js";

/** What every view is: `following`, a stream, runs while it is shown; left by Escape. */
export class View {
  constructor(root, shell, back = "/") {
    this.root = root;
    this.shell = shell;
    this.back = back;
  }

  mount() {
    this.following.start();
    this.timer = setInterval(() => this.tick(), 1000);
  }

  unmount() {
    this.following?.stop();
    clearInterval(this.timer);
  }

  key(event) {
    if (event.key !== "Escape") return false;
    this.shell.go(this.back);
    return true;
  }

  /** Once a second: only times are other ones. */
  tick() {}
}

/** A view of the agents' store: `refresh()` asks for it again whenever it changed. */
export class StoreView extends View {
  constructor(root, shell, { back, seconds = 0 }) {
    super(root, shell, back);
    this.following = new Following(shell, () => this.refresh(), seconds);
  }
}

/** A list: `path` is asked for it, `tables` are its Rows, `choices` narrow it down by state.
 *
 * A view has `parts()`, the nodes to show, and `show(data)`, which writes what the server answered.
 */
export class ListView extends StoreView {
  constructor(root, shell, { name, path = `/api/${name}`, seconds, choices = null }) {
    super(root, shell, { back: "/", seconds });
    this.name = name;
    this.path = path;
    this.tables = [];
    this.asked = {};  // what stands in the address
    this.filters = [];  // what of it Escape takes away
    this.headline = h("h1", { class: "headline", "aria-live": "polite" }, `Reading the ${name} …`);
    this.note = h("p", { class: "empty", hidden: true });
    this.states = choices;
    this.choices = choices && new Choices("State", choices, (state) => this.choose({ state }));
  }

  parts() {
    return [this.headline, ...this.tables.map((rows) => rows.node), this.note];
  }

  mount() {
    const query = new URLSearchParams(location.search);
    for (const key of Object.keys(this.asked)) this.asked[key] = query.get(key) ?? "";
    if (this.states && !(this.asked.state in this.states)) this.asked.state = "";
    this.hide();
    this.root.replaceChildren(...this.parts());
    super.mount();
  }

  tick() {
    for (const rows of this.tables) rows.tick();
  }

  key(event) {
    if (this.tables.length && (event.key === "j" || event.key === "k")) { moveIn(this.tables[0].body, event.key === "j" ? 1 : -1); return true; }
    const state = this.states && /^[0-9]$/.test(event.key) ? Object.keys(this.states)[Number(event.key)] : undefined;
    if (state !== undefined) { this.choose({ state }); return true; }
    const filters = this.filters.filter((key) => this.asked[key]);
    if (event.key !== "Escape" || !filters.length) return super.key(event);
    this.choose(Object.fromEntries(filters.map((key) => [key, ""])));
    return true;
  }

  /** Ask for something else, and keep in the address what. */
  choose(changes) {
    Object.assign(this.asked, changes);
    const query = new URLSearchParams(Object.entries(this.asked).filter(([, value]) => value));
    history.replaceState(null, "", query.size ? `${location.pathname}?${query}` : location.pathname);
    this.following.again();
  }

  /** What the server is asked for. */
  query() {
    return { ...this.asked };
  }

  /** Hide what cannot be shown now. */
  hide() {
    for (const rows of this.tables) rows.node.hidden = true;
  }

  /** Say where there are no `items` how to begin. */
  beginWith(items, words, command) {
    this.note.hidden = items.length > 0;
    if (!items.length) nothingYet(this.note, words, command);
  }

  async refresh() {
    const query = this.query();
    try {
      const data = await look(this.path, query);
      if (JSON.stringify(query) !== JSON.stringify(this.query())) return this.refresh();
      this.show(data);
    } catch (error) {
      this.hide();
      say(this.headline, `The ${this.name} cannot be read`);
      this.headlineKey = "";
      cannot(this.note, error);
    }
  }
}

/** One thing, by its id: a view has `article` and `read()`, which raises where there is nothing. */
export class DetailView extends StoreView {
  constructor(root, shell, { id, what, back, seconds }) {
    super(root, shell, { back, seconds });
    this.id = id;
    this.note = h("p", { class: "empty" }, `Reading the ${what} …`);
    this.above = back.slice(1);
  }

  mount() {
    this.root.replaceChildren(this.note);
    super.mount();
  }

  /** The way back, above everything. */
  crumbs() {
    return h("p", { class: "crumbs" }, h("a", { href: this.back, "data-nav": true }, `← ${this.above[0].toUpperCase()}${this.above.slice(1)}`));
  }

  async refresh() {
    try {
      await this.read();
    } catch (error) {
      // What is refused now is refused again.
      if (error.status && error.status < 500) this.following.stop();
      this.root.replaceChildren(this.note);
      cannot(this.note, error);
      this.note.append(h("a", { href: this.back, "data-nav": true }, `Back to the ${this.above}`));
      return;
    }
    if (!this.article.isConnected) this.root.replaceChildren(this.article);
  }
}
