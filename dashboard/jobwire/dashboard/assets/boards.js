// Boards: what is to be decided, who has spoken, and the decision; a member may have its turn here.

import { badge, setBadge, setState } from "./fleet.js";
import { changed, fact, h, say } from "./dom.js";
import { ago, clock, counted, fullTime, now, words } from "./format.js";
import { Rows, act, look, refused, tableRow } from "./store.js";
import { DetailView, ListView } from "./views.js";

const page = document.documentElement.dataset;
const COLUMNS = [["state", "Phase"], ["job", "What is decided"], ["last", "Waits for"], ["unread", "Until"], ["when", "Opened"]];
const VERDICTS = { APPROVED: "done", APPROVED_WITH_REVIEW: "done", REJECTED: "failed", ESCALATE: "waiting", CHANGED: "failed" };
const LOOK_SECONDS = 5;
const lower = (word) => word.toLowerCase().replaceAll("_", " ");

function stateOf(board) {
  if (board.verdict) return { group: VERDICTS[board.verdict] ?? "done", word: lower(board.verdict) };
  return { group: board.missing.includes(page.person) ? "waiting" : "running", word: lower(board.phase) + (board.round ? ` ${board.round}/${board.rounds}` : "") };
}

export class BoardsView extends ListView {
  constructor(root, shell) {
    super(root, shell, { name: "boards", seconds: LOOK_SECONDS });
    this.table = new Rows(COLUMNS, "agents boards", { key: (row) => row.board_id, make, fill, times });
    this.tables = [this.table];
  }

  show({ boards = [] }) {
    const urgent = (one) => (one.open ? 1 + one.missing.includes(page.person) : 0);
    boards.sort((one, other) => urgent(other) - urgent(one));
    this.table.show(boards);
    this.beginWith(boards, "No board yet. Open one:", "board open --agent lead --checkpoint RELEASE --proposal plan.md --member ann --member ben");
    const open = boards.filter((one) => one.open);
    const mine = open.filter((one) => one.missing.includes(page.person)).length;
    say(this.headline, boards.length ? [`${counted(open.length, "board", "boards")} open`, mine ? `${counted(mine, "waits", "wait")} for you` : ""].filter(Boolean).join(" · ") : "No boards yet");
  }
}

function make(row) {
  const parts = { badge: badge(), title: h("a", { class: "title", href: `/boards?board=${encodeURIComponent(row.board_id)}`, "data-nav": true }), sub: h("span", { class: "session" }), missing: h("span", { class: "detail" }), until: h("span"), when: h("span") };
  parts.node = tableRow({ state: parts.badge, job: [parts.title, h("span", { class: "sub" }, parts.sub)], last: parts.missing, unread: parts.until, when: parts.when });
  return parts;
}

function fill(parts, row) {
  setState(parts, stateOf(row));
  say(parts.title, row.checkpoint);
  say(parts.sub, `${row.board_id} · by ${row.opened_by} · ${row.members.length} members`);
  say(parts.missing, row.open ? row.missing.join(", ") : "");
}

function times(parts, row) {
  say(parts.until, row.open ? `${words(row.until - now())} left` : "");
  say(parts.when, ago(row.opened));
}

export class BoardView extends DetailView {
  constructor(root, shell, id) {
    super(root, shell, { id, what: "board", back: "/boards", seconds: LOOK_SECONDS });
    this.badge = badge();
    this.title = h("h1", { class: "job-title" });
    this.facts = h("dl", { class: "facts" });
    this.decision = h("section", { class: "decision", "aria-label": "Decision" });
    this.members = h("tbody");
    this.said = h("ol", { class: "messages", role: "log", "aria-label": "What was said" });
    this.proposal = h("pre", { class: "proposal" });
    this.turn = h("section", { class: "reply", "aria-label": "Your turn" });
    this.article = h("article", { class: "job-view" }, this.crumbs(),
      h("div", { class: "job-head" }, this.badge, this.title), this.decision, this.turn, this.facts,
      h("div", { class: "columns" }, h("section", {}, h("h2", {}, "Proposal"), this.proposal, h("h2", {}, "What was said"), this.said),
        h("aside", {}, h("h2", {}, "Members"), h("table", { class: "attempts" }, h("thead", {}, h("tr", {}, ["Member", "Assessment", "Vote"].map((text) => h("th", { scope: "col" }, text)))), this.members))));
  }

  async read() {
    const data = await look("/api/board", { board: this.id });
    if (!data.made) throw new Error("No agent has written here yet.");
    const { board } = data;
    setBadge(this.badge, stateOf(board));
    say(this.title, board.checkpoint);
    say(this.proposal, data.proposal);
    this.facts.replaceChildren(...[fact("Board", h("code", {}, board.board_id)), fact("Opened by", board.opened_by), fact("Opened", ago(board.opened)),
      board.open ? fact("This phase ends in", words(board.until - now())) : null, board.open ? fact("Waits for", board.missing.join(", ")) : null,
      fact("Quorum", String(board.quorum || "none")), fact("Conversation", h("a", { href: `/conversations?thread=${encodeURIComponent(board.thread_id)}`, "data-nav": true }, "its messages"))].filter(Boolean));
    this.#drawSaid(data);
    this.#drawDecision(data.resolution);
    this.#drawTurn(data);
  }

  #drawSaid({ board, said, more }) {
    if (!changed(this, "saidKey", [said.at(-1)?.number, board.open, board.phase])) return;
    this.said.replaceChildren(...(more ? [h("li", { class: "hint" }, `only the last ${said.length} are shown`)] : []), ...said.map(statement));
    if (!said.length) this.said.append(h("li", { class: "hint" }, "Nobody has spoken yet."));
    const last = new Map(said.map((one) => [`${one.member} ${one.turn}`, one.content]));
    this.members.replaceChildren(...board.members.map((name) => {
      const assessed = last.get(`${name} assess`), voted = last.get(`${name} vote`);
      const missing = board.open && board.missing.includes(name);
      return h("tr", { data: { missing: String(missing) } }, h("td", {}, name, missing ? h("span", { class: "kind" }, " is awaited") : null),
        h("td", {}, assessed ? `${lower(assessed.verdict)}, ${assessed.score}/10` : "–"), h("td", {}, voted ? `${lower(voted.final_verdict)}, ${Math.round(voted.confidence * 100)}%` : "–"));
    }));
  }

  #drawDecision(found) {
    this.decision.hidden = !found;
    if (!found || this.decided) return;
    this.decided = true;
    if (found.forged) {
      this.decision.dataset.group = "failed";
      this.decision.replaceChildren(h("p", { class: "summary" }, "The resolution was changed, or this home's key is another one: nothing of it is shown."));
      return;
    }
    const list = (title, items) => (items?.length ? [h("h2", {}, title), h("ul", {}, items.map((text) => h("li", {}, text)))] : []);
    this.decision.dataset.group = VERDICTS[found.verdict] ?? "done";
    this.decision.replaceChildren(h("p", { class: "summary" }, `Decided: ${lower(found.verdict)}`), h("p", {}, Object.entries(found.vote_summary ?? {}).map(([name, vote]) => `${name}: ${lower(vote)}`).join(" · ")),
      ...list("Conditions", found.conditions), ...list("Dissent", found.dissent), ...list("Abstained", found.abstentions));
  }

  /** The form of the phase; it stays what it is while somebody fills it in. */
  #drawTurn({ board, mine }) {
    const actions = page.actions === "yes";
    const key = mine && actions ? `${board.phase} ${board.round}` : "";
    if (!changed(this, "turnKey", key)) return;
    this.turn.hidden = !key;
    if (!key) return;
    const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
    const send = async (turn, content) => {
      try {
        await act(`/api/act/board-${turn}`, { board: this.id, ...content });
        say(document.getElementById("said"), "Said");
        this.following.again();
      } catch (error) {
        refused(wrong, error);
      }
    };
    const why = h("textarea", { rows: "2", maxlength: "16000", "aria-label": "Your words" });
    const lines = () => why.value.split("\n").map((line) => line.trim()).filter(Boolean);
    const button = (word, act_) => h("button", { type: "button", class: "choice", onclick: act_ }, lower(word));
    const forms = {
      ASSESSING: () => {
        const score = h("input", { type: "number", min: "1", max: "10", value: "5", "aria-label": "Score, 1 to 10" });
        why.placeholder = "Concerns, one a line";
        return [why, h("div", { class: "choices" }, h("label", {}, "Score ", score), ["APPROVE", "CONCERNS", "REJECT"].map((verdict) => button(verdict, () => send("assess", { verdict, score: Number(score.value), concerns: lines(), recommendations: [] }))))];
      },
      DISCUSSING: () => {
        const changes = h("input", { type: "checkbox" });
        why.placeholder = "What you say to all members";
        return [why, h("div", { class: "choices" }, ["CHALLENGE", "AGREE", "QUESTION", "CLARIFY"].map((type) => button(type, () => send("discuss", { to: "ALL", type, message: why.value, changes_my_verdict: changes.checked }))), button("pass", () => send("pass", {})), h("label", {}, changes, " changes my verdict"))];
      },
      VOTING: () => {
        const sure = h("input", { type: "range", min: "0", max: "1", step: "0.05", value: "0.8", "aria-label": "Confidence" });
        why.placeholder = "Conditions, one a line";
        return [why, h("div", { class: "choices" }, h("label", {}, "Confidence ", sure), ["APPROVE", "REJECT", "ABSTAIN"].map((verdict) => button(verdict, () => send("vote", { verdict, confidence: Number(sure.value), conditions: lines() }))))];
      },
    };
    this.turn.replaceChildren(h("h2", {}, `Your turn: ${lower(board.phase)}`), ...(forms[board.phase]?.() ?? []), h("p", { class: "hint own" }, `You speak as ${page.person}, once a phase; said again, the last one counts.`), wrong);
  }
}

function statement(one) {
  const { content } = one;
  const what = content.verdict ?? content.final_verdict ?? content.type ?? one.turn;
  const points = [...(content.concerns ?? []), ...(content.recommendations ?? []).map((text) => `→ ${text}`), ...(content.conditions ?? []).map((text) => `if: ${text}`)].map(String);
  const measure = content.score !== undefined ? `${content.score}/10` : content.confidence !== undefined ? `${Math.round(content.confidence * 100)}%` : "";
  return h("li", { class: "message", data: { kind: one.turn, mine: String(one.member === page.person) } },
    h("p", { class: "message-head" }, h("b", {}, one.member), h("span", { class: "kind" }, `${one.phase} · ${lower(String(what))}${measure ? ` · ${measure}` : ""}${content.to && content.to !== "ALL" ? ` · to ${content.to}` : ""}${content.changes_my_verdict ? " · changes its verdict" : ""}`), h("time", { title: fullTime(one.at), datetime: fullTime(one.at) }, clock(one.at))),
    content.message ? h("pre", { class: "body" }, String(content.message)) : null,
    points.length ? h("ul", { class: "acceptance" }, points.map((text) => h("li", {}, text))) : null);
}
