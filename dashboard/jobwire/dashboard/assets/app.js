// The shell around the views: addresses, keys, theme, and what every view tells.

import { say } from "./dom.js";
import { AgentsView } from "./agents.js";
import { BoardView, BoardsView } from "./boards.js";
import { ChartsView } from "./charts.js";
import { ConversationView } from "./conversation.js";
import { ConversationsView } from "./conversations.js";
import { FleetView } from "./fleet.js";
import { clock, now } from "./format.js";
import { JobView } from "./job.js";
import { LocksView } from "./locks.js";
import { FeedView } from "./requests.js";
import { SessionsView } from "./sessions.js";
import { TasksView } from "./tasks.js";
import { SearchView } from "./search.js";

const VIEWS = { "/charts": ChartsView, "/feed": FeedView, "/conversations": ConversationsView, "/agents": AgentsView, "/search": SearchView, "/locks": LocksView, "/boards": BoardsView, "/sessions": SessionsView, "/tasks": TasksView };
const KEYS = { m: "/charts", w: "/feed", c: "/conversations", a: "/agents", s: "/search", l: "/locks", b: "/boards", e: "/sessions", p: "/tasks" };

const root = document.getElementById("main");
const live = document.getElementById("live");
const trouble = document.getElementById("trouble");
const lost = document.getElementById("lost");
const help = document.getElementById("help");
const LOST_MS = 3000;  // a restart of the server is not worth a word
const STATES = { live: "live", reconnecting: "reconnecting …", connecting: "connecting", paused: "paused" };

const shell = {
  state(state) {
    if (live.dataset.state === state) return;
    live.dataset.state = state;
    say(live.lastElementChild, STATES[state]);
    clearTimeout(losing);
    if (state === "reconnecting") losing = setTimeout(connectionLost, LOST_MS);
    else { lost.hidden = true; delete root.dataset.lost; }
  },
  counts(counts) {
    const needed = counts.waiting + counts.stuck;
    document.title = needed ? `(${needed}) jobwire` : "jobwire";
  },
  trouble(text, what = "The server cannot follow the fleet") {
    trouble.hidden = !text;
    say(trouble, text ? `${what}: ${text}` : "");
  },
  go(path) {
    history.pushState(null, "", path);
    show();
    scrollTo(0, 0);
  },
};

let losing = 0;

/** Say that what is shown is old: its times go on, and would make working jobs look stuck. */
function connectionLost() {
  say(lost, `No answer from the server since ${clock(now() - LOST_MS / 1000)}: what you see is as old. Trying again …`);
  lost.hidden = false;
  root.dataset.lost = "yes";
}

let fleet = null;  // kept while another view is open: coming back is instant and goes on where it stopped
let fleetAddress = "/";
let view = null;

function show() {
  if (view === fleet && fleet) fleetAddress = lastAddress;
  view?.unmount();
  const job = /^\/jobs\/([0-9a-f]{8})$/.exec(location.pathname);
  document.title = "jobwire";
  shell.trouble("");
  const query = new URLSearchParams(location.search);
  const thread = location.pathname === "/conversations" && query.get("thread");
  const board = location.pathname === "/boards" && query.get("board");
  const View = VIEWS[location.pathname];
  if (job) view = new JobView(root, shell, job[1]);
  else if (thread) view = new ConversationView(root, shell, thread);
  else if (board) view = new BoardView(root, shell, board);
  else if (View) view = new View(root, shell);
  else view = fleet ??= new FleetView(root, shell);
  const name = job ? "job" : View ? location.pathname.slice(1) : "fleet";
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === name) {
      link.setAttribute("aria-current", "page");
      link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.offsetLeft - 40;  // on a phone the row is longer than the screen
    }
    else link.removeAttribute("aria-current");
  }
  root.dataset.view = name;
  view.mount();
}

// The fleet's filter stays while a job is looked at.
let lastAddress = location.pathname === "/" ? `/${location.search}` : "/";
const replace = history.replaceState.bind(history);
history.replaceState = (...values) => { replace(...values); if (location.pathname === "/") lastAddress = `/${location.search}`; };

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-nav]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  const path = link.getAttribute("href");
  shell.go(path === "/" && view !== fleet ? fleetAddress : path);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
  if (event.key === "?") help.showModal();
  else if (event.key === "t") changeTheme();
  else if (event.key === "f") shell.go(view === fleet ? "/" : fleetAddress);
  else if (event.key in KEYS) shell.go(KEYS[event.key]);
  else if (!view.key(event)) return;
  event.preventDefault();
});

function changeTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const present = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = present === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("jobwire-theme", next);
}

// Not a form: without a referrer browsers send "Origin: null" with one (Fetch, section 3.2).
document.getElementById("logout").addEventListener("click", async () => {
  await fetch("/logout", { method: "POST", redirect: "manual" });
  location.assign("/login");
});
document.getElementById("theme").addEventListener("click", changeTheme);
document.getElementById("help-button").addEventListener("click", () => help.showModal());
addEventListener("popstate", show);
show();
