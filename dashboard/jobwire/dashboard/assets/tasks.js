// The tasks of a run: what needs somebody first, and a graph of what waits for what.

import { confirmed } from "./confirm.js";
import { threadPath } from "./conversations.js";
import { badge, setState } from "./fleet.js";
import { changed, h, mark, plain, say } from "./dom.js";
import { ago, fullTime, now, words } from "./format.js";
import { MOST_NODES, drawGraph } from "./graph.js";
import { Rows, act, nothingYet, tableRow } from "./store.js";
import { ListView } from "./views.js";

const actions = document.documentElement.dataset.actions === "yes";
const COLUMNS = [["state", "State"], ["job", "Task"], ["last", "Waits for, or why"], ["who", "Who"], ["unread", "Runs"], ["when", "Since"]];
const GROUPS = { failed: "failed", stuck: "stuck", in_review: "waiting", approved: "waiting", in_progress: "running", ready: "late", pending: "pending", completed: "done", cancelled: "done" };
const CHOICES = { "": ["All", ""], failed: ["Failed", "failed"], stuck: ["Stuck", "stuck"], in_review: ["In review", "waiting"], in_progress: ["In progress", ""], ready: ["Ready", ""], pending: ["Pending", ""], completed: ["Completed", ""] };
const STEP = 200;  // tasks that are shown, and that more of them are
const WAITS = { failed_dependency: "a failed task", dependency: "tasks", claim: "who claims it", review: "a review", merge: "a merge", retry: "its next try" };

export class TasksView extends ListView {
  constructor(root, shell) {
    super(root, shell, { name: "tasks", seconds: 10, choices: CHOICES });
    this.asked = { state: "", run: "" };
    this.limit = STEP;
    this.filters = ["state"];
    this.runs = h("select", { "aria-label": "Run", onchange: () => this.choose({ run: this.runs.value }) });
    this.bar = h("section", { class: "filters", "aria-label": "Filter" }, this.choices.node, h("div", { class: "find" }, this.runs));
    this.graph = h("div", { class: "graph-box", hidden: true });
    this.hint = h("p", { class: "hint", hidden: true });
    this.table = new Rows(COLUMNS, "threads", { key: (row) => row.id, make: (row) => this.#make(row), fill, times });
    this.tables = [this.table];
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => { this.limit += STEP; this.following.again(); } });
  }

  parts() {
    return [h("div", { class: "job-view" }, this.headline, this.bar, this.graph, this.hint, this.table.node, this.note, this.more)];
  }

  hide() {
    super.hide();
    for (const node of [this.bar, this.graph, this.hint, this.more]) node.hidden = true;
  }

  query() {
    return { ...super.query(), limit: this.limit };
  }

  choose(changes) {
    this.limit = STEP;
    super.choose(changes);
  }

  show(data) {
    const { tasks = [], counts = {}, runs = [] } = data;
    this.shown = data.run ?? "";
    this.bar.hidden = runs.length === 0;
    if (changed(this, "runsKey", runs)) this.runs.replaceChildren(...runs.map((name) => h("option", { value: name }, `run ${name}`)));
    this.runs.hidden = runs.length < 2;
    this.runs.value = this.shown;
    this.choices.show([this.asked.state], counts);
    this.table.show(tasks);
    this.note.hidden = tasks.length > 0;
    if (!runs.length) nothingYet(this.note, "No tasks yet. Import a plan, or add one:", "tasks add --agent lead --title 'build it'");
    else if (!tasks.length) this.note.replaceChildren("No task is in this state.");
    say(this.headline, sentence(counts));
    const found = data.found ?? 0;
    this.more.hidden = !data.more;
    say(this.more, `Show ${Math.min(STEP, found - tasks.length)} more of ${found}`);
    this.#draw(tasks, found);
  }

  #draw(tasks, found) {
    const first = tasks.slice(0, MOST_NODES).sort((a, b) => a.number - b.number);
    const ids = new Set(first.map((row) => row.id));
    const failed = new Set(first.filter((row) => row.status === "failed" || row.status === "cancelled").map((row) => row.id));
    const edges = first.flatMap((row) => row.needs.filter((id) => ids.has(id)).map((id) => [id, row.id, failed.has(id)]));
    // Of a long plan most stand alone here: what each waits for is in the list.
    const linked = new Set(edges.flatMap(([from, to]) => [from, to]));
    const nodes = found > first.length ? first.filter((row) => linked.has(row.id)) : first;
    this.graph.hidden = edges.length === 0;
    this.hint.hidden = found <= first.length;
    const graph = edges.length ? `, the graph ${nodes.length} that wait for each other` : "";
    say(this.hint, `Of ${found} tasks the list shows ${tasks.length}${graph}: those that need somebody first.`);
    if (!changed(this, "graphKey", [edges, nodes.map((row) => [row.id, row.status, row.title])])) return;
    this.graph.replaceChildren(drawGraph(nodes.map((row) => ({ id: row.id, text: `${row.id} ${row.title}`, sub: [row.status.replaceAll("_", " "), row.worker || row.owner].filter(Boolean).join(" · "), group: GROUPS[row.status], href: row.thread ? threadPath(row.thread) : null })), edges, "Which task waits for which"));
  }

  #make(row) {
    const parts = {
      badge: badge(), title: h("a", { class: "title", "data-nav": true }), sub: h("span", { class: "session" }), priority: h("b", { class: "priority" }),
      why: h("span", { class: "detail" }), buttons: h("div", { class: "asks" }), who: h("span", { class: "session" }), runs: h("span"), when: h("span"),
    };
    const button = (word, title, note, verb, more = {}, reason = true) => h("button", { type: "button", class: "choice", onclick: () => confirmed({
      title, word: `${parts.row.id} ${parts.row.title}`, note, keep: "Leave it", button: title.replace("?", ""), reason,
      act: (text) => act(`/api/act/task-${verb}`, { run_id: this.shown, task_id: parts.row.id, expect_version: parts.row.version, ...more, ...(reason ? { reason: text } : {}) }),
    }) }, word);
    parts.verbs = actions ? {
      approve: button("approve", "Approve the work?", "What waited for it may begin.", "review", { approve: true }),
      reject: button("send back", "Send it back?", "Its worker gets it again, with your reason.", "review", { approve: false }),
      merge: button("merged", "Is it merged?", "Then the task is completed, and what waited for it may begin.", "merge", {}, false),
      retry: button("retry", "Retry the task?", "It is given to its owner again, with what fell with it.", "retry", {}, false),
      cancel: button("cancel …", "Cancel the task?", "Its job ends with it; what depends on it waits, fails or is skipped, as it was added.", "cancel"),
    } : {};
    parts.buttons.append(...Object.values(parts.verbs));
    parts.node = tableRow({ state: parts.badge, job: [parts.title, h("span", { class: "sub" }, h("code", {}, row.id), parts.priority, parts.sub)], last: [parts.why, parts.buttons], who: parts.who, unread: parts.runs, when: parts.when }, { class: "still" });
    return parts;
  }
}

const MAY = { approve: ["in_review"], reject: ["in_review"], merge: ["approved"], retry: ["failed", "cancelled"], cancel: ["pending", "ready", "stuck", "in_progress", "in_review", "approved"] };

function fill(parts, row) {
  setState(parts, { group: GROUPS[row.status], word: row.status.replaceAll("_", " ") });
  say(parts.title, row.title);
  parts.title.setAttribute("href", row.thread ? threadPath(row.thread) : "/tasks");
  say(parts.priority, row.priority === "normal" ? "" : row.priority);
  mark(parts.priority, "priority", row.priority);
  say(parts.sub, row.needs.length ? `after ${row.needs.join(", ")}` : "");
  const waits = row.waits ? `waits for ${WAITS[row.waits.on] ?? row.waits.on}${row.waits.ref ? `: ${String(row.waits.ref).replaceAll(",", ", ")}` : ""}` : "";
  const why = [row.reason, waits].filter(Boolean).join(" · ");
  say(parts.why, why);
  parts.why.title = plain(why);
  for (const [verb, button] of Object.entries(parts.verbs)) button.hidden = !MAY[verb].includes(row.status);
  say(parts.who, row.worker || row.owner || "anybody");
  say(parts.runs, row.jobs ? `${row.jobs}${row.failures ? `, ${row.failures}/${row.most} failed` : ""}` : "");
}

function times(parts, row) {
  say(parts.when, row.not_before ? `in ${words(row.not_before - now()).split(" ")[0]}` : ago(row.since));
  parts.when.title = fullTime(row.since);
}

function sentence(counts) {
  if (!counts.all) return "No tasks yet";
  const parts = ["failed", "stuck", "in_review"].filter((name) => counts[name]).map((name) => `${counts[name]} ${name.replaceAll("_", " ")}`);
  return [...parts, `${counts.completed} of ${counts.all} completed`].join(" · ");
}
