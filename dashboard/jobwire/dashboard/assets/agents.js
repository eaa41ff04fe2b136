// The agents: who is there, on what, and who is missing.

import { badge, setState } from "./fleet.js";
import { changed, h, plain, say } from "./dom.js";
import { ago, counted, fullTime, words } from "./format.js";
import { Rows, tableRow } from "./store.js";
import { ListView } from "./views.js";

const COLUMNS = [["state", "State"], ["job", "Agent"], ["last", "On what"], ["unread", "Unread"], ["when", "Last sign"]];
const GROUPS = { blocked: "waiting", dead: "failed", stale: "stuck", working: "running", idle: "pending", stopped: "done", left: "done" };
const PROBLEMS = { blocked: ["blocked", "waiting"], dead: ["dead", "failed"], stale: ["stale", "stuck"] };
// How long an agent is silent counts, so the same store says something else later.
const LOOK_SECONDS = 5;

export class AgentsView extends ListView {
  constructor(root, shell) {
    super(root, shell, { name: "agents", seconds: LOOK_SECONDS });
    this.table = new Rows(COLUMNS, "agents", { key: (row) => row.name, make, fill, times });
    this.tables = [this.table];
  }

  show({ agents = [], counts = {} }) {
    this.table.show(agents);
    this.beginWith(agents, "No agent is here. Let one join:", "agent join --agent builder");
    const here = agents.filter((row) => !["left", "dead"].includes(row.state)).length;
    const problems = Object.entries(PROBLEMS).filter(([state]) => counts[state]);
    const parts = problems.flatMap(([state, [word, group]], number) => [number ? " · " : "", h("span", { data: { group } }, `${counts[state]} ${word}`)]);
    if (!changed(this, "headlineKey", [here, counts])) return;
    this.headline.replaceChildren(`${counted(here, "agent is", "agents are")} here`, parts.length ? " · " : "", ...parts);
  }
}

function make(row) {
  const parts = {
    badge: badge(), title: h("a", { class: "title", href: `/conversations?agent=${encodeURIComponent(row.name)}`, "data-nav": true, title: "its conversations" }), sub: h("span", { class: "session" }),
    task: h("span", { class: "detail" }), bar: h("progress", { max: "1", "aria-label": `progress of ${row.name}` }), unread: h("span"), when: h("span"),
  };
  parts.node = tableRow({ state: parts.badge, job: [parts.title, h("span", { class: "sub" }, parts.sub)], last: [parts.task, parts.bar], unread: parts.unread, when: parts.when });
  return parts;
}

function fill(parts, row) {
  const group = row.late && row.state !== "blocked" ? "late" : GROUPS[row.state] ?? "pending";
  setState(parts, { group, word: row.late ? `${row.state}, late` : row.state });
  say(parts.title, row.name);
  say(parts.sub, [row.kind, row.roles.join(", "), row.run === "default" ? "" : `run ${row.run}`, row.host && `${row.host}${row.pid ? `:${row.pid}` : ""}`].filter(Boolean).join(" · "));
  say(parts.task, row.task);
  parts.task.title = plain(row.task);
  parts.bar.hidden = row.progress === null || row.state !== "working";
  if (row.progress !== null) parts.bar.value = row.progress;
  say(parts.unread, row.unread ? `${row.unread >= 100 ? "100+" : row.unread} unread` : "");
}

function times(parts, row) {
  say(parts.when, ago(row.last));
  parts.when.title = `${fullTime(row.last)}\nexpected each ${words(row.interval)}\njoined ${fullTime(row.joined)}`;
}
