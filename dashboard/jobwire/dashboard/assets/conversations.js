// The conversations of agents: what is blocked first, then what changed last.

import { badge, setBadge } from "./fleet.js";
import { h, mark, plain, say } from "./dom.js";
import { ago, fullTime } from "./format.js";
import { Choices, Following, Rows, cannot, look, nothingYet } from "./store.js";

const me = document.documentElement.dataset.person;
const COLUMNS = [["state", "State"], ["job", "Conversation"], ["last", "Last word"], ["who", "From → for"], ["unread", "Unread"], ["when", "Changed"]];
const CHOICES = { all: ["All", ""], blocked: ["Blocked", "waiting"], open: ["Open", ""], failed: ["Failed", "failed"], ended: ["Ended", ""], dead: ["Given up", "failed"] };
const GROUPS = { blocked: "waiting", failed: "failed", pending: "pending", claimed: "running", in_progress: "running", done: "done", cancelled: "done" };

export const threadPath = (id) => `/conversations?thread=${encodeURIComponent(id)}`;

/** Return what a badge shows of a conversation. */
export function threadState(row) {
  return { group: GROUPS[row.status] ?? "pending", word: row.status.replaceAll("_", " ") };
}

export class ConversationsView {
  constructor(root, shell) {
    this.root = root;
    this.shell = shell;
    this.rows = new Map();
    this.headline = h("h1", { class: "headline", "aria-live": "polite" }, "Reading the conversations …");
    this.choices = new Choices("State", CHOICES, (choice) => this.#choose({ choice }));
    this.agent = h("input", { type: "search", placeholder: "of agent …", "aria-label": "Conversations of one agent", autocomplete: "off", spellcheck: "false", maxlength: "64",
      onchange: () => this.#choose({ agent: this.agent.value.trim() }) });
    this.filters = h("section", { class: "filters", "aria-label": "Filter" }, this.choices.node, h("div", { class: "find" }, this.agent));
    this.table = new Rows(COLUMNS, "threads", { key: (row) => row.id, make: (row) => this.#make(row), fill: (parts, row) => this.#fill(parts, row) });
    this.table.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !event.target.closest("a, button") && !getSelection().toString()) shell.go(row.querySelector("a.title").getAttribute("href"));
    });
    this.note = h("p", { class: "empty", hidden: true });
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.#older() }, "Show older ones");
    this.following = new Following(shell, () => this.#refresh());
  }

  mount() {
    const query = new URLSearchParams(location.search);
    this.choice = query.get("state") in CHOICES ? query.get("state") : "all";
    this.agent.value = query.get("agent") ?? "";
    this.table.node.hidden = true;
    this.root.replaceChildren(this.headline, this.filters, this.table.node, this.note, this.more);
    this.following.start();
    this.timer = setInterval(() => this.table.tick(times), 1000);
  }

  unmount() {
    this.following.stop();
    clearInterval(this.timer);
  }

  key(event) {
    if (event.key === "j" || event.key === "k") { this.table.move(event.key === "j" ? 1 : -1); return true; }
    if (/^[0-5]$/.test(event.key)) { this.#choose({ choice: Object.keys(CHOICES)[Number(event.key)] }); return true; }
    if (event.key === "/") { this.shell.go("/search"); return true; }
    if (event.key !== "Escape") return false;
    if (this.choice === "all" && !this.agent.value) this.shell.go("/");
    else this.#choose({ choice: "all", agent: "" });
    return true;
  }

  #choose({ choice = this.choice, agent = this.agent.value.trim() }) {
    this.choice = choice;
    this.agent.value = agent;
    const query = new URLSearchParams();
    if (choice !== "all") query.set("state", choice);
    if (agent) query.set("agent", agent);
    history.replaceState(null, "", query.size ? `/conversations?${query}` : "/conversations");
    this.rows.clear();
    this.older = undefined;
    this.following.again();
  }

  #ask(values = {}) {
    return look("/api/conversations", { state: this.choice === "all" ? "" : this.choice, agent: this.agent.value.trim(), ...values });
  }

  /** Take the newest page. A conversation that changed is always there; where too many did, begin anew. */
  async #refresh() {
    const asked = `${this.choice} ${this.agent.value}`;
    let data;
    try {
      data = await this.#ask();
    } catch (error) {
      this.table.node.hidden = true;
      this.more.hidden = true;
      say(this.headline, "The conversations cannot be read");
      cannot(this.note, error);
      return;
    }
    if (asked !== `${this.choice} ${this.agent.value}`) return this.#refresh();
    if (!data.made) {
      say(this.headline, "No conversations yet");
      nothingYet(this.note, "No agent has written here yet. Begin with one:", "inbox send --agent lead --to builder --summary 'build it'");
      return;
    }
    // What is given up is redriven or dropped: those that are gone from there have not changed.
    if (this.choice === "dead") this.older = undefined;
    const newest = Math.max(0, ...[...this.rows.values()].map((row) => row.changed));
    const reaches = data.next === null || data.threads.some((row) => row.status !== "blocked" && row.changed <= newest);
    if (!reaches || this.older === undefined) {
      this.rows.clear();
      this.older = data.next;
    }
    for (const row of data.threads) this.rows.set(row.id, row);
    this.#draw(data);
  }

  async #older() {
    try {
      const data = await this.#ask({ below: this.older });
      this.older = data.next;
      for (const row of data.threads) this.rows.set(row.id, row);
      this.#draw(data);
    } catch (error) {
      this.shell.trouble(error.message);
    }
  }

  #draw(data) {
    const first = (row) => this.choice === "all" && row.status === "blocked";
    const fits = (row) => ["all", "dead"].includes(this.choice) || CHOICES_OF[this.choice].includes(row.status);
    const rows = [...this.rows.values()].filter(fits).sort((a, b) => first(b) - first(a) || b.changed - a.changed);
    this.choices.show(this.choice, data.counts);
    this.table.show(rows);
    this.note.hidden = rows.length > 0;
    if (!rows.length) this.note.replaceChildren("No conversation matches.");
    this.more.hidden = this.older === null;
    const parts = [];
    if (data.counts.blocked) parts.push(`${data.counts.blocked} ${data.counts.blocked === 1 ? "conversation is" : "conversations are"} blocked`);
    if (data.counts.dead) parts.push(`${data.counts.dead} ${data.counts.dead === 1 ? "message" : "messages"} given up`);
    if (data.unread) parts.push(`${data.unread >= 100 ? "100 or more" : data.unread} unread for you (${me})`);
    say(this.headline, parts.join(" · ") || (data.counts.all ? `All well: ${data.counts.open} open` : "No conversations yet"));
  }

  #make(row) {
    const parts = {
      badge: badge(), title: h("a", { class: "title", href: threadPath(row.id), "data-nav": true }), sub: h("span", { class: "session" }), priority: h("b", { class: "priority" }),
      word: h("span", { class: "detail" }), who: h("span", { class: "session" }), unread: h("span"), when: h("span"),
    };
    const cell = (name, ...children) => h("td", { class: name }, ...children);
    parts.node = h("tr", {}, cell("state", parts.badge), cell("job", parts.title, h("span", { class: "sub" }, parts.priority, parts.sub)), cell("last", parts.word), cell("who", parts.who), cell("unread", parts.unread), cell("when", parts.when));
    return parts;
  }

  #fill(parts, row) {
    const state = threadState(row);
    mark(parts.node, "group", state.group);
    setBadge(parts.badge, state);
    say(parts.title, row.subject || row.id);
    say(parts.priority, row.priority === "normal" ? "" : row.priority);
    mark(parts.priority, "priority", row.priority);
    say(parts.sub, [row.id, row.run === "default" ? "" : row.run, row.task].filter(Boolean).join(" · "));
    const word = row.last ? `${row.last.from}: ${row.last.text}` : "";
    say(parts.word, word);
    parts.word.title = plain(word);
    say(parts.who, `${row.sender} → ${row.worker || "anybody"}`);
    say(parts.unread, Object.entries(row.unread).map(([name, count]) => `${count} ${name === me ? "for you" : `by ${name}`}`).join(", "));
    mark(parts.unread, "mine", String(Boolean(row.unread[me])));
    times(parts, row);
  }
}

const CHOICES_OF = { blocked: ["blocked"], open: ["pending", "claimed", "in_progress"], failed: ["failed"], ended: ["done", "cancelled"] };

function times(parts, row) {
  say(parts.when, row.updated ? ago(row.updated) : "");
  parts.when.title = row.updated ? `changed ${fullTime(row.updated)}\nbegun ${fullTime(row.created)}` : "";
}
