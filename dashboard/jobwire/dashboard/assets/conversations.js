// The conversations of agents: what is blocked first, then what changed last.

import { compose } from "./compose.js";
import { badge, setState } from "./fleet.js";
import { h, mark, plain, say } from "./dom.js";
import { ago, counted, fullTime } from "./format.js";
import { Rows, look, nothingYet, tableRow } from "./store.js";
import { ListView } from "./views.js";

const { actions, person: me } = document.documentElement.dataset;
const COLUMNS = [["state", "State"], ["job", "Conversation"], ["last", "Last word"], ["who", "From → for"], ["unread", "Unread"], ["when", "Changed"]];
const CHOICES = { "": ["All", ""], blocked: ["Blocked", "waiting"], open: ["Open", ""], failed: ["Failed", "failed"], ended: ["Ended", ""], dead: ["Given up", "failed"] };
const GROUPS = { blocked: "waiting", failed: "failed", pending: "pending", claimed: "running", in_progress: "running", done: "done", cancelled: "done" };

export const threadPath = (id) => `/conversations?thread=${encodeURIComponent(id)}`;

/** Return what a badge shows of a conversation. */
export function threadState(row) {
  return { group: GROUPS[row.status] ?? "pending", word: row.status.replaceAll("_", " ") };
}

export class ConversationsView extends ListView {
  constructor(root, shell) {
    super(root, shell, { name: "conversations", choices: CHOICES });
    this.asked = { state: "", agent: "" };
    this.filters = ["state", "agent"];
    this.rows = new Map();
    this.agent = h("input", { type: "search", placeholder: "of agent …", "aria-label": "Conversations of one agent", autocomplete: "off", spellcheck: "false", maxlength: "64",
      onchange: () => this.choose({ agent: this.agent.value.trim() }) });
    this.table = new Rows(COLUMNS, "threads", { key: (row) => row.id, make, fill, times });
    this.tables = [this.table];
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.#older() }, "Show older ones");
  }

  parts() {
    this.agent.value = this.asked.agent;
    return [this.headline, h("section", { class: "filters", "aria-label": "Filter" }, this.choices.node, h("div", { class: "find" }, this.agent, actions === "yes" ? h("button", { type: "button", title: "n", onclick: () => compose(this.shell) }, "New …") : null)), this.table.node, this.note, this.more];
  }

  hide() {
    super.hide();
    this.more.hidden = true;
  }

  key(event) {
    if (event.key === "/") { this.shell.go("/search"); return true; }
    if (event.key === "n" && actions === "yes") { compose(this.shell); return true; }
    return super.key(event);
  }

  choose(changes) {
    this.rows.clear();
    this.older = undefined;
    super.choose(changes);
    this.agent.value = this.asked.agent;
  }

  /** Take the newest page. A conversation that changed is always there; where too many did, begin anew. */
  show(data) {
    if (!data.made || !data.counts.all) {
      say(this.headline, "No conversations yet");
      nothingYet(this.note, "No agent has written here yet. Begin with one:", "inbox send --agent lead --to builder --summary 'build it'");
      return;
    }
    // What is given up is redriven or dropped: those that are gone from there have not changed.
    if (this.asked.state === "dead") this.older = undefined;
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
      const data = await look(this.path, { ...this.asked, below: this.older });
      this.older = data.next;
      for (const row of data.threads) this.rows.set(row.id, row);
      this.#draw(data);
    } catch (error) {
      this.shell.trouble(error.message, "Older ones cannot be read");
    }
  }

  #draw(data) {
    const { state } = this.asked;
    const first = (row) => !state && row.status === "blocked";
    const fits = (row) => CHOICES_OF[state]?.includes(row.status) ?? true;
    const rows = [...this.rows.values()].filter(fits).sort((a, b) => first(b) - first(a) || b.changed - a.changed);
    this.choices.show([state], data.counts);
    this.table.show(rows);
    this.note.hidden = rows.length > 0;
    if (!rows.length) this.note.replaceChildren("No conversation matches.");
    this.more.hidden = this.older === null;
    const parts = [];
    if (data.counts.blocked) parts.push(`${counted(data.counts.blocked, "conversation is", "conversations are")} blocked`);
    if (data.counts.dead) parts.push(`${counted(data.counts.dead, "message", "messages")} given up`);
    if (data.unread) parts.push(`${data.unread >= 100 ? "100 or more" : data.unread} unread for you (${me})`);
    say(this.headline, parts.join(" · ") || `All well: ${data.counts.open} open`);
  }
}

function make(row) {
  const parts = {
    badge: badge(), title: h("a", { class: "title", href: threadPath(row.id), "data-nav": true }), sub: h("span", { class: "session" }), priority: h("b", { class: "priority" }),
    word: h("span", { class: "detail" }), who: h("span", { class: "session" }), unread: h("span"), when: h("span"),
  };
  parts.node = tableRow({ state: parts.badge, job: [parts.title, h("span", { class: "sub" }, parts.priority, parts.sub)], last: parts.word, who: parts.who, unread: parts.unread, when: parts.when });
  return parts;
}

function fill(parts, row) {
  setState(parts, threadState(row));
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
}

const CHOICES_OF = { blocked: ["blocked"], open: ["pending", "claimed", "in_progress"], failed: ["failed"], ended: ["done", "cancelled"] };

function times(parts, row) {
  say(parts.when, row.updated ? ago(row.updated) : "");
  parts.when.title = row.updated ? `changed ${fullTime(row.updated)}\nbegun ${fullTime(row.created)}` : "";
}
