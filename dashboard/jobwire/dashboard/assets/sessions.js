// Sessions: the panes in which agents live, with their last lines; stopped and brought back with a question first.

import { confirmed } from "./confirm.js";
import { badge, setState } from "./fleet.js";
import { changed, copyButton, h, say } from "./dom.js";
import { ago, counted, words } from "./format.js";
import { act, kept, place } from "./store.js";
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
    const shown = kept(this.cards, sessions, (one) => one.name, make);
    for (const [parts, one] of shown) fill(parts, one);
    place(this.list, shown.map(([parts]) => parts.node));
    this.beginWith(sessions, "No session yet. Open one:", "sessions create builder --agent claude");
    const running = sessions.filter((one) => one.state === "running");
    const asks = running.filter((one) => one.attention).length;
    say(this.headline, sessions.length ? [counted(running.length, "session runs", "sessions run"), asks ? `${counted(asks, "asks", "ask")} something` : ""].filter(Boolean).join(" · ") : "No sessions yet");
  }
}

function fill(parts, one) {
  const lost = one.state === "running" && !one.alive;
  const group = lost ? "failed" : one.attention ? "waiting" : GROUPS[one.state] ?? "pending";
  setState(parts, { group, word: lost ? "pane is gone" : one.attention ? "asks" : one.state });
  say(parts.facts, [one.agent, one.agent_id !== one.name ? `inbox ${one.agent_id}` : "", one.title, one.idle === null ? `${one.state} ${ago(one.changed)}` : `silent for ${words(one.idle)}`, one.restarts ? `${one.restarts} restarts` : ""].filter(Boolean).join(" · "));
  if (changed(parts, "jobKey", [one.job_id, one.job_status])) {
    parts.job.replaceChildren(...(one.job_id ? [h("a", { href: `/jobs/${one.job_id}`, "data-nav": true }, `job ${one.job_id}`), ` ${one.job_status}`] : []));
  }
  say(parts.reason, one.state === "running" ? "" : one.reason);
  const lines = one.lines.join("\n");
  parts.lines.hidden = !lines;
  say(parts.lines, lines);
  if (changed(parts, "attachKey", one.attach)) parts.attach.replaceChildren(...(one.attach ? [h("code", {}, one.attach), copyButton(one.attach)] : []));
  parts.stop.hidden = one.state !== "running";
  parts.kill.hidden = one.state !== "running";
  parts.resume.hidden = !(lost || one.state === "stopped" || one.state === "terminated");
}

function make({ name }) {
  const question = (how, title, note, button) => () => confirmed({ title, word: name, note, keep: "Leave it", button, reason: false, act: () => act("/api/act/session-stop", { name, how }) });
  const parts = {
    badge: badge(), facts: h("span", { class: "kind" }), job: h("span"), reason: h("p", { class: "hint" }), lines: h("pre", { class: "pane" }), attach: h("p", { class: "request-command" }),
    stop: h("button", { type: "button", onclick: question("graceful", "Stop this session?", "Its agent is asked to end as by a person; its conversation is kept. Its job is cancelled.", "Stop it") }, "Stop …"),
    kill: h("button", { type: "button", class: "danger", onclick: question("hard", "Kill this session?", "Its process is killed at once, its job is cancelled.", "Kill it") }, "Kill …"),
    resume: h("button", { type: "button", onclick: () => confirmed({ title: "Bring this session back?", word: name, note: "Its agent is started again in its directory, in its conversation where that is known.", keep: "Leave it", button: "Resume it", reason: false, act: () => act("/api/act/session-resume", { name }) }) }, "Resume …"),
  };
  parts.node = h("section", { class: "session-card", "aria-label": `Session ${name}` },
    h("p", { class: "message-head" }, parts.badge, h("b", {}, name), parts.facts, parts.job), parts.reason, parts.lines, parts.attach,
    actions ? h("div", { class: "choices" }, parts.stop, parts.kill, parts.resume) : null);
  return parts;
}
