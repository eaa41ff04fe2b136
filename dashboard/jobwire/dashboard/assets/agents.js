// The agents: who is there, on what, and who is missing.

import { badge, setBadge } from "./fleet.js";
import { h, mark, plain, say } from "./dom.js";
import { ago, fullTime, words } from "./format.js";
import { Following, Rows, cannot, look, nothingYet } from "./store.js";

const COLUMNS = [["state", "State"], ["job", "Agent"], ["last", "On what"], ["unread", "Unread"], ["when", "Last sign"]];
const GROUPS = { blocked: "waiting", dead: "failed", stale: "stuck", working: "running", idle: "pending", stopped: "done", left: "done" };
const PROBLEMS = { blocked: ["blocked", "waiting"], dead: ["dead", "failed"], stale: ["stale", "stuck"] };
// How long an agent is silent counts, so the same store says something else later.
const LOOK_SECONDS = 5;

export class AgentsView {
  constructor(root, shell) {
    this.root = root;
    this.shell = shell;
    this.headline = h("h1", { class: "headline", "aria-live": "polite" }, "Reading the agents …");
    this.note = h("p", { class: "empty", hidden: true });
    this.table = new Rows(COLUMNS, "agents", { key: (row) => row.name, make: (row) => this.#make(row), fill });
    this.following = new Following(shell, () => this.#refresh(), LOOK_SECONDS);
  }

  mount() {
    this.table.node.hidden = true;
    this.root.replaceChildren(this.headline, this.table.node, this.note);
    this.following.start();
    this.timer = setInterval(() => this.table.tick(times), 1000);
  }

  unmount() {
    this.following.stop();
    clearInterval(this.timer);
  }

  key(event) {
    if (event.key === "j" || event.key === "k") { this.table.move(event.key === "j" ? 1 : -1); return true; }
    if (event.key !== "Escape") return false;
    this.shell.go("/");
    return true;
  }

  async #refresh() {
    try {
      const data = await look("/api/agents");
      const rows = data.agents ?? [];
      this.table.show(rows);
      this.note.hidden = rows.length > 0;
      if (!rows.length) nothingYet(this.note, "No agent is here. Let one join:", "agent join --agent builder");
      const here = rows.filter((row) => !["left", "dead"].includes(row.state)).length;
      const problems = Object.entries(PROBLEMS).filter(([state]) => data.counts?.[state]);
      const parts = problems.flatMap(([state, [word, group]], number) => [number ? " · " : "", h("span", { data: { group } }, `${data.counts[state]} ${word}`)]);
      const key = JSON.stringify([here, data.counts]);
      if (key === this.headlineKey) return;
      this.headlineKey = key;
      this.headline.replaceChildren(`${here} ${here === 1 ? "agent is" : "agents are"} here`, parts.length ? " · " : "", ...parts);
    } catch (error) {
      this.table.node.hidden = true;
      say(this.headline, "The agents cannot be read");
      this.headlineKey = "";
      cannot(this.note, error);
    }
  }

  #make(row) {
    const parts = {
      badge: badge(), title: h("a", { class: "title", href: `/conversations?agent=${encodeURIComponent(row.name)}`, "data-nav": true, title: "its conversations" }), sub: h("span", { class: "session" }),
      task: h("span", { class: "detail" }), bar: h("progress", { max: "1", "aria-label": `progress of ${row.name}` }), unread: h("span"), when: h("span"),
    };
    const cell = (name, ...children) => h("td", { class: name }, ...children);
    parts.node = h("tr", {}, cell("state", parts.badge), cell("job", parts.title, h("span", { class: "sub" }, parts.sub)), cell("last", parts.task, parts.bar), cell("unread", parts.unread), cell("when", parts.when));
    parts.node.addEventListener("click", (event) => { if (!event.target.closest("a") && !getSelection().toString()) this.shell.go(parts.title.getAttribute("href")); });
    return parts;
  }
}

function fill(parts, row) {
  const group = row.late && row.state !== "blocked" ? "late" : GROUPS[row.state] ?? "pending";
  mark(parts.node, "group", group);
  setBadge(parts.badge, { group, word: row.late ? `${row.state}, late` : row.state });
  say(parts.title, row.name);
  say(parts.sub, [row.kind, row.roles.join(", "), row.run === "default" ? "" : `run ${row.run}`, row.host && `${row.host}${row.pid ? `:${row.pid}` : ""}`].filter(Boolean).join(" · "));
  say(parts.task, row.task);
  parts.task.title = plain(row.task);
  parts.bar.hidden = row.progress === null || row.state !== "working";
  if (row.progress !== null) parts.bar.value = row.progress;
  say(parts.unread, row.unread ? `${row.unread >= 100 ? "100+" : row.unread} unread` : "");
  times(parts, row);
}

function times(parts, row) {
  say(parts.when, ago(row.last));
  parts.when.title = `${fullTime(row.last)}\nexpected each ${words(row.interval)}\njoined ${fullTime(row.joined)}`;
}
