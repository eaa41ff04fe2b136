// What jobs ask: one card a request, with its choices as buttons and a text field; and the feed of all of them.

import { copyButton, h, jobwire, say } from "./dom.js";
import { Live } from "./live.js";
import { ago, counted, words, now } from "./format.js";
import { act, kept, place } from "./store.js";
import { View } from "./views.js";

const KINDS = { permission: "Permission", question: "Question", turn_end: "End of a turn", idle: "Waits for work", error: "Error" };
const page = document.documentElement.dataset;
const status = document.getElementById("said");

/** Answer a request, and say so to who cannot see that its card goes. */
export async function answer(job, request, text, always = false) {
  await act(`/api/jobs/${job}/answer`, { request, text, always });
  say(status, `Answered: ${text}`);
}

/** Return the choices of a request as buttons; `problem` hears why one was refused. */
export function choiceButtons(job, item, { always = () => false, problem }) {
  if (page.actions !== "yes" || !item.named) return [];
  let sent = false;  // not disabled: a button that is loses the focus, and who uses keys the place
  return item.choices.map((choice) => h("button", { type: "button", class: "choice", onclick: async (event) => {
    event.stopPropagation();
    if (sent) return;
    sent = true;
    try {
      await answer(job, item.id, choice, always());
    } catch (error) {
      sent = false;
      problem(error.message);
    }
  } }, choice));
}

/** Go to what answers, not to what leads away. */
function focusIn(node) {
  (node.querySelector("button.choice, input[type=text], button.copy") ?? node.querySelector("a"))?.focus();
}

/** The requests of any number of rows as cards that stay what they are while they are open. */
export class RequestCards {
  constructor({ named = false } = {}) {
    this.named = named;
    this.cards = new Map();
    this.node = h("div", { class: "requests" });
  }

  update(found) {
    const had = this.node.contains(document.activeElement);
    const shown = kept(this.cards, found, ([row, item]) => `${row.id}/${item.id}`, (one) => this.#card(...one));
    place(this.node, shown.map(([card]) => card.node));
    // Who answers one after the other by keys goes on with the next.
    if (had && !this.node.contains(document.activeElement)) this.focus();
    this.tick();
  }

  focus() {
    focusIn(this.node);
  }

  tick() {
    for (const { age, item } of this.cards.values()) say(age, `${ago(item.asked)}${item.expires ? `, for ${words(item.expires - now())} more` : ""}`);
  }

  #card(row, item) {
    const age = h("span", { class: "age" });
    const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
    const problem = (text) => { wrong.hidden = false; say(wrong, text); };
    const always = h("input", { type: "checkbox" });
    const id = `ask-${row.id}-${item.id}`;
    const node = h("section", { class: "request", "aria-labelledby": id, data: { id: item.id } },
      h("p", { class: "request-head" }, h("b", { id }, KINDS[item.kind] ?? item.kind), age,
        this.named ? h("a", { href: `/jobs/${row.id}`, "data-nav": true }, row.title || row.id) : null),
      h("p", { class: "request-text" }, item.text),
      item.tool ? h("p", { class: "hint" }, `Tool: ${item.tool}`) : null,
      item.preview ? h("pre", {}, item.preview) : null,
      ...this.#controls(row, item, { always, problem }),
      wrong);
    return { node, age, item };
  }

  #controls(row, item, { always, problem }) {
    if (!item.named) return [h("p", { class: "hint" }, "It gave no id: answer where it runs.")];
    if (page.actions !== "yes") {
      const command = jobwire(`answer ${item.id} ${item.choices.length ? `'${item.choices[0].replaceAll("'", "'\\''")}'` : "TEXT"}`);
      return [item.choices.length ? h("p", {}, item.choices.join(" · ")) : null, h("p", { class: "request-command" }, h("code", {}, command), copyButton(command))];
    }
    const buttons = choiceButtons(row.id, item, { always: () => always.checked, problem });
    const controls = [h("div", { class: "choices" }, buttons)];
    if (item.scope !== null) controls.push(h("label", { class: "always" }, always, ` for always: ${item.scope}`));
    if (item.kind !== "permission" || !item.choices.length) {
      const text = h("input", { type: "text", maxlength: "4000", placeholder: "your answer", "aria-label": "Your answer", autocomplete: "off" });
      const send = h("button", { type: "button", class: "primary", onclick: () => answer(row.id, item.id, text.value, always.checked).catch((error) => problem(error.message)) }, "Answer");
      text.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) send.click(); });
      controls.push(h("div", { class: "free" }, text, send));
    }
    return [...controls, h("p", { class: "hint" }, `Answers as ${page.author}.`)];
  }
}

/** Return [row, request] of all that is open, the oldest and costliest first. */
export function openRequests(rows) {
  const cost = ([, item]) => item.cost * (now() - item.asked);
  return rows.flatMap((row) => row.asks.map((item) => [row, item])).sort((a, b) => cost(b) - cost(a) || (a[1].id < b[1].id ? -1 : 1));
}

export class FeedView extends View {
  constructor(root, shell) {
    super(root, shell);
    this.rows = new Map();
    this.headline = h("h1", { class: "headline", "aria-live": "polite" }, "Reading what waits …");
    this.cards = new RequestCards({ named: true });
    this.note = h("p", { class: "empty", hidden: true }, "Nothing waits for you.");
    this.following = new Live("/api/stream", {
      fleet: (data) => { this.rows = new Map(); this.#take(data); },
      update: (data) => { for (const id of data.gone) this.rows.delete(id); this.#take(data); },
    }, (state) => shell.state(state));
  }

  mount() {
    this.root.replaceChildren(this.headline, this.cards.node, this.note);
    super.mount();
  }

  tick() {
    this.cards.tick();
  }

  key(event) {
    if (event.key !== "j" && event.key !== "k") return super.key(event);
    const all = [...this.cards.node.children];
    const at = all.findIndex((node) => node.contains(document.activeElement));
    const next = all[Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), all.length - 1)];
    if (next) focusIn(next);
    return true;
  }

  #take(data) {
    for (const row of data.rows) {
      if (row.asks.length) this.rows.set(row.id, row);
      else this.rows.delete(row.id);
    }
    this.shell.counts(data.counts);
    this.shell.trouble(data.trouble);
    const found = openRequests([...this.rows.values()]);
    this.cards.update(found);
    this.note.hidden = found.length > 0;
    say(this.headline, found.length ? `${counted(found.length, "request waits", "requests wait")} for you` : "All answered");
  }
}
