// One job: what it says, what happened, what can be done.

import { confirmed } from "./confirm.js";
import { ask, changed, copyButton, fact, h, mark, plain, say } from "./dom.js";
import { Live } from "./live.js";
import { badge, idleText, setBadge } from "./fleet.js";
import { ago, brief, clock, fullTime, now, words } from "./format.js";
import { RequestCards } from "./requests.js";
import { act } from "./store.js";
import { View } from "./views.js";

const KEPT = 2000;

export class JobView extends View {
  constructor(root, shell, id) {
    super(root, shell);
    this.id = id;
    this.attempts = new Map();
    this.last = null;
    this.count = 0;
  }

  async mount() {
    this.mounted = true;
    this.root.replaceChildren(h("p", { class: "empty" }, "Reading the job …"));
    try {
      this.job = await ask(`/api/jobs/${this.id}`);
    } catch (error) {
      if (this.mounted) this.#failed(error);
      return;
    }
    if (!this.mounted) return;
    this.#build();
    this.#row(this.job.row);
    this.following = new Live(`/api/jobs/${this.id}/stream`, {
      begin: (data) => this.#begin(data),
      lines: (data) => this.#lines(data),
      row: (data) => this.#row(data),
      alive: () => {},
      gone: (data) => { this.unmount(); this.#failed(data); },
    }, (state) => this.shell.state(state));
    super.mount();
  }

  unmount() {
    this.mounted = false;
    super.unmount();
  }

  #failed({ message, error = message, hint }) {
    this.root.replaceChildren(
      h("p", { class: "empty" }, error, hint ? h("span", { class: "hint" }, hint) : null,
        h("a", { href: "/", "data-nav": true }, "Back to the fleet")));
    this.shell.state("live");
  }

  #build() {
    const { record, paths } = this.job;
    this.commands = h("ul", { class: "commands" });
    this.badge = badge();
    this.title = h("h1", { class: "job-title" }, record.title || "untitled job");
    this.word = h("p", { class: "word" });
    this.requests = new RequestCards();
    this.bar = h("progress", { max: "100", "aria-label": "progress" });
    this.percent = h("span", { class: "percent" });
    this.facts = new Map();
    const told = (name, title) => {
      const node = fact(title);
      this.facts.set(name, node.lastChild);
      return node;
    };
    this.cancelButton = h("button", { type: "button", class: "danger", onclick: () => this.#confirm() }, "Cancel the job …");
    this.attemptList = h("tbody");
    this.list = h("ol", { class: "timeline" });
    this.older = h("p", { class: "hint", hidden: true });
    this.raw = h("pre");
    this.root.replaceChildren(h("article", { class: "job-view" },
      h("p", { class: "crumbs" }, h("a", { href: "/", "data-nav": true }, "← Fleet")),
      h("div", { class: "job-head" }, this.badge, this.title,
        document.documentElement.dataset.actions === "yes" ? this.cancelButton : null),
      this.word,
      this.requests.node,
      h("p", { class: "job-progress" }, this.bar, this.percent),
      h("dl", { class: "facts" },
        fact("Job", h("code", {}, this.id), copyButton(this.id)),
        told("session", "Session"), told("attempt", "Attempt"), told("idle", "Idle / limit"), told("age", "Age"),
        told("took", "Run time"), told("finished", "Finished"), told("seq", "Events"), told("owner", "Held by")),
      h("div", { class: "columns" },
        h("section", { class: "history" }, h("h2", {}, "History"), this.list, this.older),
        h("aside", {},
          h("h2", {}, "Commands"),
          this.commands,
          h("h2", {}, "Attempts"),
          h("table", { class: "attempts tries" }, h("thead", {}, h("tr", {}, ["Try", "From", "Lasted", "Events", "End"].map((text) => h("th", { scope: "col" }, text)))), this.attemptList),
          h("h2", {}, "Files"),
          h("ul", { class: "commands" }, Object.entries(paths).filter(([, path]) => path).map(([name, path]) => h("li", {}, h("span", {}, name), h("div", {}, h("code", {}, path), copyButton(path))))),
          record.instructions ? h("details", {}, h("summary", {}, "Instructions"), h("pre", {}, record.instructions)) : null,
          h("details", {}, h("summary", {}, "Record"), this.raw)))));
    this.#drawRecord();
  }

  #drawRecord() {
    const { record, commands } = this.job;
    say(this.raw, JSON.stringify(record, null, 1));
    if (!changed(this, "commandsKey", commands)) return;
    this.commands.replaceChildren(...commands.map((item) => h("li", {}, h("span", {}, item.what), h("div", {}, h("code", {}, item.command), copyButton(item.command)))));
  }

  #row(row) {
    this.row = row;
    setBadge(this.badge, row);
    say(this.title, row.title || "untitled job");
    document.title = `${plain(row.title || this.id)} · jobwire`;
    mark(this.word, "group", row.group);
    say(this.word, [row.why, row.detail].filter(Boolean).join(": ") || "It has said nothing yet.");
    this.requests.update(row.asks.map((item) => [row, item]));
    this.bar.parentNode.hidden = row.percent === null || row.group === "done";
    if (row.percent !== null) this.bar.value = row.percent;
    say(this.percent, row.percent === null ? "" : `${Math.round(row.percent)}%`);
    say(this.facts.get("session"), row.session || "–");
    say(this.facts.get("attempt"), row.max_attempts ? `${row.attempt} of ${row.max_attempts}` : String(row.attempt));
    say(this.facts.get("owner"), row.owner || "–");
    say(this.facts.get("seq"), String(row.seq));
    this.cancelButton.hidden = row.finished !== null;
    this.tick();
    clearTimeout(this.refresh);
    if (this.following) this.refresh = setTimeout(() => this.#reread(), 300);
  }

  async #reread() {
    try {
      this.job = await ask(`/api/jobs/${this.id}`);
      this.#drawRecord();
    } catch { /* the stream tells of trouble */ }
  }

  tick() {
    const { created, finished, started } = this.row;
    say(this.facts.get("idle"), finished ? "–" : idleText(this.row) || "–");
    say(this.facts.get("age"), words(now() - created));
    say(this.facts.get("finished"), finished ? `${clock(finished)}, ${ago(finished)}` : "–");
    say(this.facts.get("took"), started ? words((finished ?? now()) - started) : "–");
    this.requests.tick();
    this.#drawAttempts();
  }

  // -- history -------------------------------------------------------------------------------------

  #begin(data) {
    // Sent at every connection; only the first one says where this page began.
    if (this.began) return;
    this.began = true;
    this.older.hidden = data.start === 0;
    say(this.older, `Older entries are in the history file: ${(data.start / 1024).toFixed(0)} KiB before these.`);
  }

  #lines(entries) {
    const nodes = [];
    for (const item of entries) {
      nodes.push(...this.#entry(item));
      this.#attempt(item);
    }
    this.list.prepend(...nodes.reverse());
    while (this.list.childElementCount > KEPT) this.list.lastElementChild.remove();
    this.#drawAttempts();
  }

  #entry(item) {
    const nodes = [];
    if (this.last !== null && item.attempt && this.last.attempt && item.attempt !== this.last.attempt) {
      nodes.push(h("li", { class: "divide" }, `↑ attempt ${item.attempt} · attempt ${this.last.attempt} ↓`));
    }
    const since = this.last?.at && item.at ? Math.max(0, item.at - this.last.at) : null;
    this.last = item;
    this.count += 1;
    const [kind, name, text] = describe(item);
    const { percent, ...rest } = item.data ?? {};
    const data = Object.keys(rest).length ? JSON.stringify(item.data, null, 1) : "";
    const delay = item.said_at && item.at ? item.at - item.said_at : null;
    nodes.push(h("li", { class: "entry", data: { kind, seq: item.seq ?? "" } },
      h("time", { title: item.at ? `${fullTime(item.at)}${delay === null ? "" : `\nsaid ${brief(delay)} earlier`}` : "", datetime: item.at ? fullTime(item.at) : "" }, item.at ? clock(item.at) : "?"),
      h("span", { class: "since", title: "since the entry before" }, since === null ? "" : `+${brief(since)}`),
      h("span", { class: "what" },
        h("b", {}, name), item.seq ? h("span", { class: "seq" }, `#${item.seq}`) : null,
        h("span", { class: "text" }, text),
        typeof percent === "number" && !text.includes(`${Math.round(percent)}%`) ? h("span", { class: "percent" }, `${Math.round(percent)}%`) : null,
        data ? h("details", {}, h("summary", {}, "data"), h("pre", {}, data)) : null)));
    return nodes;
  }

  #attempt(item) {
    if (!item.attempt) return;
    let attempt = this.attempts.get(item.attempt);
    if (!attempt) {
      attempt = { from: item.at, until: item.at, events: 0, end: "" };
      this.attempts.set(item.attempt, attempt);
    }
    attempt.until = Math.max(attempt.until, item.at);
    if (item.kind === "event" && item.verdict === "accepted") attempt.events += 1;
    if (["completed", "error", "cancelled"].includes(item.after)) attempt.end = item.after;
    const before = this.attempts.get(item.attempt - 1);
    if (before && !before.end) before.end = item.cause || "given up";
  }

  #drawAttempts() {
    this.attemptList.replaceChildren(...[...this.attempts].sort((a, b) => b[0] - a[0]).map(([number, item]) =>
      h("tr", {}, [String(number), clock(item.from), words((item.end ? item.until : now()) - item.from), String(item.events), item.end || "open"].map((text) => h("td", {}, text)))));
  }

  // -- cancelling --------------------------------------------------------------------------------

  #confirm() {
    confirmed({
      title: `Cancel job ${this.id}?`, word: this.row.title || this.row.detail,
      note: "This cannot be undone. Its worker is told when it next speaks.", keep: "Keep it", button: "Cancel the job",
      act: (reason) => act(`/api/jobs/${this.id}/cancel`, { reason }),
    });
  }
}

/** Return [kind, name, text] of a line of the history. */
function describe(item) {
  if (item.kind === "status") {
    const from = item.before && item.before !== item.after ? `${item.before} → ` : "";
    return ["status", `${from}${item.after ?? "?"}`, item.cause || ""];
  }
  if (item.kind === "request") return ["request", item.after, item.cause || ""];
  if (item.kind !== "event") return ["damaged", "damaged line", ""];
  const text = item.detail || "";
  if (item.verdict === "accepted") return [item.event, String(item.event).replaceAll("_", " "), text];
  const name = item.verdict === "late" ? `late ${item.event ?? ""}` : `refused: ${String(item.verdict).replaceAll("_", " ")}`;
  return [item.verdict === "late" ? "late" : "refused", name, [item.why, text].filter(Boolean).join(" · ")];
}
