// One conversation: what was said, what became of each message, and a reply.

import { ask, changed, copyButton, fact, h, say } from "./dom.js";
import { confirmed } from "./confirm.js";
import { threadState } from "./conversations.js";
import { badge, setBadge } from "./fleet.js";
import { ago, clock, fullTime, words } from "./format.js";
import { RequestCards } from "./requests.js";
import { act, look, place, refused } from "./store.js";
import { DetailView } from "./views.js";

const page = document.documentElement.dataset;
const actions = page.actions === "yes";
const ENDED = ["done", "failed", "cancelled"];

export class ConversationView extends DetailView {
  constructor(root, shell, id) {
    super(root, shell, { id, what: "conversation", back: "/conversations" });
    this.messages = new Map();
    this.turns = new Map();
    this.badge = badge();
    this.title = h("h1", { class: "job-title" });
    this.requests = new RequestCards();
    this.facts = h("dl", { class: "facts" });
    this.list = h("ol", { class: "messages", role: "log", "aria-label": "Messages", "aria-live": "polite", "aria-relevant": "additions" });
    this.older = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.#older() }, "Show older messages");
    this.end = h("button", { type: "button", class: "danger", onclick: () => this.#cancel() }, "Cancel the conversation …");
    this.article = h("article", { class: "job-view conversation" },
      this.crumbs(),
      h("div", { class: "job-head" }, this.badge, this.title, actions ? this.end : null),
      this.facts, this.older, this.list, this.requests.node, actions ? this.#replyBox() : h("p", { class: "hint" }, "Start the page with --allow-actions to reply here."));
  }

  key(event) {
    if (event.key !== "r" || !this.text) return super.key(event);
    this.text.focus();
    return true;
  }

  async read() {
    const last = Math.max(0, ...this.messages.keys(), ...this.turns.keys());
    let data = await look("/api/conversation", { thread: this.id, after: last });
    if (last && data.more) {
      this.messages.clear();
      this.turns.clear();
      data = await look("/api/conversation", { thread: this.id });
    }
    if (!data.made) throw new Error("No agent has written here yet.");
    // What became of the last ones changes after they were said.
    const fresh = last && this.messages.size ? await look("/api/conversation", { thread: this.id, after: [...this.messages.keys()].sort((a, b) => a - b).at(-Math.min(10, this.messages.size)) - 1, below: last + 1 }) : null;
    this.#take(fresh, false);
    this.#take(data, !last);
  }

  async #older() {
    const first = Math.min(...this.messages.keys());
    const data = await look("/api/conversation", { thread: this.id, below: first });
    this.#take(data, true);
  }

  #take(data, older) {
    if (!data) return;
    if (older) this.older.hidden = !data.more;
    for (const turn of data.turns) if (!this.turns.has(turn.seq)) this.turns.set(turn.seq, turnNode(turn));
    for (const message of data.messages) {
      const known = this.messages.get(message.seq);
      const became = JSON.stringify(message.to);
      if (!known) this.messages.set(message.seq, { became, ...messageNode(message) });
      else if (known.became !== became) { known.became = became; known.to.replaceChildren(...recipients(message)); }
    }
    this.#draw(data.thread);
  }

  #draw(thread) {
    const near = innerHeight + scrollY > document.documentElement.scrollHeight - 80;
    const grew = this.list.childElementCount > 0;
    place(this.list, [...this.messages, ...this.turns].sort((a, b) => a[0] - b[0]).map(([, item]) => item.node));
    setBadge(this.badge, threadState(thread));
    say(this.title, thread.subject || thread.id);
    this.end.hidden = ENDED.includes(thread.status);
    if (changed(this, "factsKey", [thread.status, thread.worker, thread.job, thread.unread])) {
      this.facts.replaceChildren(...facts(thread));
      this.#askJob(thread);
    }
    if (grew && near && !document.querySelector("dialog[open]")) scrollTo({ top: document.documentElement.scrollHeight });
    this.thread = thread;
    this.#seen(thread);
  }

  /** What the job of a blocked conversation asks is answered here as everywhere. */
  async #askJob(thread) {
    let asks = [];
    if (thread.job && thread.status === "blocked") {
      const job = await ask(`/api/jobs/${thread.job}`).catch(() => null);
      // What has no id is asked in the conversation itself, and a reply is its answer.
      if (job) asks = job.row.asks.filter((item) => item.named).map((item) => [job.row, item]);
    }
    this.asks = asks;
    this.requests.update(asks);
  }

  #seen(thread) {
    const last = Math.max(0, ...this.messages.keys());
    if (!actions || document.hidden || !thread.unread[page.person] || this.readUp === last) return;
    this.readUp = last;
    act("/api/act/read", { thread_id: this.id, through: last }).catch(() => { this.readUp = 0; });
  }

  #replyBox() {
    this.text = h("textarea", { rows: "3", maxlength: "40000", placeholder: "Reply …", "aria-label": "Your reply" });
    this.wrong = h("p", { class: "wrong", role: "alert", hidden: true });
    const question = h("input", { type: "checkbox" });
    const send = h("button", { type: "button", class: "primary", onclick: () => this.#reply(question) }, "Send");
    this.text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send.click(); });
    return h("section", { class: "reply", "aria-label": "Reply" }, this.text,
      h("div", { class: "buttons" }, h("label", {}, question, " it is a question"), h("span", { class: "hint" }, `Ctrl-Enter sends it as ${page.person}.`), send), this.wrong);
  }

  async #reply(question) {
    const text = this.text.value;
    if (!text.trim() || this.sending) return;
    this.sending = true;
    // The same id until it is kept: pressed again after a lost answer it is said once.
    if (this.draft?.text !== text) this.draft = { text, id: `p-${crypto.getRandomValues(new Uint32Array(4)).join("-")}` };
    // A permission is given by its buttons only; of several requests the cards say which is meant.
    const asks = this.asks ?? [];
    const answers = this.thread.status === "blocked" && asks.length < 2 && !asks.some(([, item]) => item.kind === "permission");
    const kind = question.checked ? "question" : answers ? "answer" : "event";
    try {
      await act("/api/act/reply", { thread_id: this.id, body: text, kind, id: this.draft.id });
      this.text.value = "";
      this.draft = null;
      question.checked = false;
      this.wrong.hidden = true;
      say(document.getElementById("said"), "Sent");
    } catch (error) {
      refused(this.wrong, error);
    } finally {
      this.sending = false;
    }
  }

  #cancel() {
    confirmed({
      title: "Cancel this conversation?", word: this.thread.subject || this.id,
      note: this.thread.job ? "Its job ends with it. This cannot be undone." : "It is ended for everybody in it.",
      keep: "Keep it", button: "Cancel the conversation",
      act: (reason) => act("/api/act/cancel", { thread_id: this.id, reason }),
    });
  }
}

function facts(thread) {
  const unread = Object.entries(thread.unread).map(([name, count]) => `${count} by ${name}`).join(", ");
  return [
    fact("Thread", h("code", {}, thread.id), copyButton(thread.id)),
    fact("From", thread.sender), fact("For", thread.worker || "anybody"),
    thread.job ? fact("Job", h("a", { href: `/jobs/${thread.job}`, "data-nav": true }, thread.job)) : null,
    thread.task ? fact("Task", thread.task) : null,
    thread.run !== "default" ? fact("Run", thread.run) : null,
    thread.priority !== "normal" ? fact("Priority", thread.priority) : null,
    fact("Begun", thread.created ? ago(thread.created) : "?"),
    unread ? fact("Unread", unread) : null,
  ].filter(Boolean);
}

function turnNode(turn) {
  return { node: h("li", { class: "turn" }, h("time", { title: fullTime(turn.at), datetime: fullTime(turn.at) }, clock(turn.at)), ` ${turn.type.replaceAll("_", " ")} · ${turn.source}`, turn.text ? `: ${turn.text}` : "") };
}

function messageNode(one) {
  const to = h("p", { class: "to" }, ...recipients(one));
  const node = h("li", { class: "message", data: { kind: one.kind, mine: String(one.from === page.person) } },
    h("p", { class: "message-head" }, h("b", {}, one.from), h("span", { class: "kind" }, one.type && one.type !== one.kind ? `${one.kind} · ${one.type}` : one.kind),
      one.priority === "normal" ? null : h("b", { class: "priority", data: { priority: one.priority } }, one.priority), one.class === "interrupt" ? h("span", { class: "kind" }, "interrupt") : null,
      h("time", { title: fullTime(one.at), datetime: fullTime(one.at) }, clock(one.at)), h("span", { class: "seq" }, `#${one.seq}`)),
    one.summary ? h("p", { class: "summary" }, one.summary) : null,
    one.body && one.body !== one.summary ? h("pre", { class: "body" }, one.body) : null,
    one.body_cut ? whole(one, "body", one.body_length) : null,
    one.acceptance.length ? h("ul", { class: "acceptance", "aria-label": "Acceptance" }, one.acceptance.map((text) => h("li", {}, text))) : null,
    one.risk ? h("p", { class: "hint" }, `Risk: ${one.risk}`) : null,
    one.payload_length ? h("details", {}, h("summary", {}, "payload"), one.payload ? h("pre", {}, one.payload) : null, whole(one, "payload", one.payload_length)) : null,
    one.artifacts.length ? h("ul", { class: "artifacts", "aria-label": "Files" }, one.artifacts.map((file) => h("li", {}, h("span", {}, file.kind), h("code", {}, file.path), copyButton(file.path)))) : null,
    one.expires ? h("p", { class: "hint" }, `Expires ${fullTime(one.expires)}`) : null,
    to);
  return { node, to };
}

function whole(one, part, length) {
  return h("p", { class: "hint" }, h("a", { href: `/api/message?seq=${one.seq}&part=${part}`, download: `message-${one.seq}-${part}.txt` }, `All of it (${length.toLocaleString()} ${length === 1 ? "character" : "characters"})`));
}

function recipients(one) {
  const named = one.to.map((item) => {
    const state = item.state === "dead" ? `dead: ${item.error || "given up"}` : item.done ? "done" : item.read ? "read" : item.state;
    const after = item.read && item.read > one.at ? ` after ${words(item.read - one.at)}` : "";
    const settle = (verb, title, note) => h("button", { type: "button", class: "copy", onclick: () => confirmed({ title, word: item.error || one.summary, note, keep: "Leave it", button: title.replace("?", ""), reason: false, act: () => act("/api/act/settle", { seq: one.seq, agent: item.name, verb }) }) }, verb);
    const buttons = actions && item.state === "dead" ? [settle("redrive", "Queue it again?", `${item.name} gets the message as if it were new.`), settle("drop", "Drop it for good?", `${item.name} never gets it.`)] : [];
    return h("span", { class: "recipient", data: { state: item.state, read: String(Boolean(item.read)) }, title: `${item.state}${item.tries > 1 ? `, ${item.tries} tries` : ""}${item.read ? `, read${after}` : ""}` }, `${item.name}: ${state}`, ...buttons);
  });
  if (!named.length) named.push(h("span", { class: "recipient" }, "to nobody by name"));
  return one.to_more ? [...named, "and more"] : named;
}
