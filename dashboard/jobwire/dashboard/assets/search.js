// Messages by their words.

import { h, say } from "./dom.js";
import { threadPath } from "./conversations.js";
import { clock, fullTime } from "./format.js";
import { cannot, look, moveIn, nothingYet } from "./store.js";
import { StoreView } from "./views.js";

export class SearchView extends StoreView {
  constructor(root, shell) {
    super(root, shell, { back: "/conversations" });
    this.text = h("input", { type: "search", placeholder: "Words of a message; \"a phrase\"; begin*", "aria-label": "Search messages", autocomplete: "off", spellcheck: "false", maxlength: "1000",
      onkeydown: (event) => { if (event.key === "Enter") this.#search(); if (event.key === "Escape") this.text.blur(); event.stopPropagation(); } });
    this.headline = h("h1", { class: "headline", "aria-live": "polite" }, "Search what agents said");
    this.list = h("ol", { class: "messages found" });
    this.note = h("p", { class: "empty", hidden: true });
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.#ask(this.next) }, "Show older ones");
  }

  mount() {
    this.text.value = new URLSearchParams(location.search).get("q") ?? "";
    this.root.replaceChildren(this.headline, h("div", { class: "search" }, this.text, h("button", { type: "button", class: "primary", onclick: () => this.#search() }, "Search")), this.list, this.note, this.more);
    super.mount();
    if (this.text.value) this.#search();
    else this.text.focus();
  }

  /** What was found stays, whatever is written meanwhile. */
  async refresh() {}

  key(event) {
    if (event.key === "/") { this.text.focus(); this.text.select(); return true; }
    if (event.key === "j" || event.key === "k") { moveIn(this.list, event.key === "j" ? 1 : -1); return true; }
    return super.key(event);
  }

  #search() {
    const words = this.text.value.trim();
    history.replaceState(null, "", words ? `/search?${new URLSearchParams({ q: words })}` : "/search");
    this.list.replaceChildren();
    this.note.hidden = true;
    this.more.hidden = true;
    if (words) this.#ask();
  }

  async #ask(below) {
    const words = this.text.value.trim();
    try {
      const data = await look("/api/search", { q: words, below });
      if (words !== this.text.value.trim()) return;
      if (!data.made) { nothingYet(this.note, "No agent has written here yet. Begin with one:", "inbox send --agent lead --to builder --summary 'build it'"); return; }
      this.next = data.next;
      this.more.hidden = data.next === null;
      this.list.append(...data.messages.map(item));
      const count = this.list.childElementCount;
      say(this.headline, count ? `${count}${data.next === null ? "" : " or more"} ${count === 1 ? "message" : "messages"} with these words` : "No message has all these words");
    } catch (error) {
      cannot(this.note, error);
    }
  }
}

function item(one) {
  return h("li", { class: "message", data: { kind: one.kind } },
    h("p", { class: "message-head" }, h("b", {}, one.from), h("span", { class: "kind" }, one.type && one.type !== one.kind ? `${one.kind} · ${one.type}` : one.kind), h("time", { title: fullTime(one.at), datetime: fullTime(one.at) }, clock(one.at))),
    h("a", { class: "title", href: threadPath(one.thread), "data-nav": true }, one.summary || one.id),
    one.body && one.body !== one.summary ? h("p", { class: "detail" }, one.body) : null);
}
