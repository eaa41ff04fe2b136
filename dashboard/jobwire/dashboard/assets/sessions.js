// Sessions: the panes in which agents live, with their last lines; stopped and brought back with a question first.

import { confirmed } from "./confirm.js";
import { badge, setBadge } from "./fleet.js";
import { copyButton, h, mark, say } from "./dom.js";
import { ago, words } from "./format.js";
import { act, nothingYet, place } from "./store.js";
import { ListView } from "./views.js";

const actions = document.documentElement.dataset.actions === "yes";
const GROUPS = { running: "running", stopped: "pending", terminated: "failed", archived: "done" };
const LOOK_SECONDS = 3;

export class SessionsView extends ListView {
  constructor(root, shell) {
    super(root, shell, { name: "sessions", seconds: LOOK_SECONDS });
    this.cards = new Map();
    this.list = h("div", { class: "sessions" });
  }

  parts() {
    return [this.headline, this.list, this.note];
  }

  hide() {
    this.list.replaceChildren();
    this.cards.clear();
  }

  show({ sessions = [] }) {
    const names = new Set(sessions.map((one) => one.name));
    for (const name of this.cards.keys()) if (!names.has(name)) this.cards.delete(name);
    place(this.list, sessions.map((one) => this.#card(one)));
    this.note.hidden = sessions.length > 0;
    if (!sessions.length) nothingYet(this.note, "No session yet. Open one:", "sessions create builder --agent claude");
    const running = sessions.filter((one) => one.state === "running");
    const asks = running.filter((one) => one.attention).length;
    say(this.headline, sessions.length ? [`${running.length} ${running.length === 1 ? "session runs" : "sessions run"}`, asks ? `${asks} ${asks === 1 ? "asks" : "ask"} something` : ""].filter(Boolean).join(" · ") : "No sessions yet");
  }

  #card(one) {
    let parts = this.cards.get(one.name);
    if (!parts) { parts = make(one); this.cards.set(one.name, parts); }
    const lost = one.state === "running" && !one.alive;
    const group = lost ? "failed" : one.attention ? "waiting" : GROUPS[one.state] ?? "pending";
    mark(parts.node, "group", group);
    setBadge(parts.badge, { group, word: lost ? "pane is gone" : one.attention ? "asks" : one.state });
    say(parts.facts, [one.agent, one.agent_id !== one.name ? `inbox ${one.agent_id}` : "", one.title, one.idle === null ? `${one.state} ${ago(one.changed)}` : `silent for ${words(one.idle)}`, one.restarts ? `${one.restarts} restarts` : ""].filter(Boolean).join(" · "));
    const job = `${one.job_id} ${one.job_status}`;
    if (parts.jobKey !== job) {
      parts.jobKey = job;
      parts.job.replaceChildren(...(one.job_id ? [h("a", { href: `/jobs/${one.job_id}`, "data-nav": true }, `job ${one.job_id}`), ` ${one.job_status}`] : []));
    }
    say(parts.reason, one.state === "running" ? "" : one.reason);
    const lines = one.lines.join("\n");
    parts.lines.hidden = !lines;
    say(parts.lines, lines);
    if (parts.attachKey !== one.attach) {
      parts.attachKey = one.attach;
      parts.attach.replaceChildren(...(one.attach ? [h("code", {}, one.attach), copyButton(one.attach)] : []));
    }
    parts.stop.hidden = one.state !== "running";
    parts.kill.hidden = one.state !== "running";
    parts.resume.hidden = !(lost || one.state === "stopped" || one.state === "terminated");
    return parts.node;
  }
}

function make({ name }) {
  const question = (how, title, note, button) => () => confirmed({ title, word: name, note, keep: "Leave it", button, reason: false, act: () => act("/api/session/stop", { name, how }) });
  const parts = {
    badge: badge(), facts: h("span", { class: "kind" }), job: h("span"), reason: h("p", { class: "hint" }), lines: h("pre", { class: "pane" }), attach: h("p", { class: "request-command" }),
    stop: h("button", { type: "button", onclick: question("graceful", "Stop this session?", "Its agent is asked to end as by a person; its conversation is kept. Its job is cancelled.", "Stop it") }, "Stop …"),
    kill: h("button", { type: "button", class: "danger", onclick: question("hard", "Kill this session?", "Its process is killed at once, its job is cancelled.", "Kill it") }, "Kill …"),
    resume: h("button", { type: "button", onclick: () => confirmed({ title: "Bring this session back?", word: name, note: "Its agent is started again in its directory, in its conversation where that is known.", keep: "Leave it", button: "Resume it", reason: false, act: () => act("/api/session/resume", { name }) }) }, "Resume …"),
  };
  parts.node = h("section", { class: "session-card", "aria-label": `Session ${name}` },
    h("p", { class: "message-head" }, parts.badge, h("b", {}, name), parts.facts, parts.job), parts.reason, parts.lines, parts.attach,
    actions ? h("div", { class: "choices" }, parts.stop, parts.kill, parts.resume) : null);
  return parts;
}
