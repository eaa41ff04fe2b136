// A new conversation: to whom, what kind, what is said.

import { h, say } from "./dom.js";
import { threadPath } from "./conversations.js";
import { act, look, refused } from "./store.js";

const page = document.documentElement.dataset;
const KINDS = { task: "a task, to be worked on", question: "a question", event: "for their information" };

function choice(name, options) {
  return h("select", { name }, Object.entries(options).map(([value, text]) => h("option", { value }, text)));
}

function field(text, control) {
  return h("label", {}, h("span", {}, text), control);
}

/** Ask for a first message; where it is kept, its conversation is shown. */
export function compose(shell) {
  const names = h("datalist", { id: "compose-names" });
  const to = h("input", { type: "text", name: "to", maxlength: "1000", list: "compose-names", placeholder: "builder, tester; * is everybody", autocomplete: "off", spellcheck: "false" });
  const kind = choice("kind", KINDS), priority = choice("priority", { normal: "normal", high: "high", low: "low" });
  const summary = h("input", { type: "text", name: "summary", maxlength: "1000", required: true, placeholder: "in one line", autocomplete: "off" });
  const body = h("textarea", { name: "body", rows: "6", maxlength: "40000", placeholder: "what is to be known (may be empty)" });
  const unknown = h("p", { class: "hint", role: "status" });
  const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
  const send = h("button", { type: "submit", class: "primary" }, "Send");
  let draft = { key: "", id: "" }, here = null;

  to.addEventListener("input", () => {
    const strange = here ? to.value.split(/[,|]/).map((name) => name.trim()).filter((name) => name && name !== "*" && !here.has(name)) : [];
    say(unknown, strange.length ? `Not here now: ${strange.join(", ")}. It waits for them.` : "");
  });
  const form = h("form", { class: "compose", onsubmit: async (event) => {
    event.preventDefault();
    const said = { to: to.value, kind: kind.value, summary: summary.value, body: body.value, priority: priority.value };
    // The same id until it is kept: sent again after a lost answer it is said once.
    if (draft.key !== JSON.stringify(said)) draft = { key: JSON.stringify(said), id: `p-${crypto.getRandomValues(new Uint32Array(4)).join("-")}` };
    send.disabled = true;
    try {
      const { thread_id: thread } = await act("/api/act/begin", { ...said, id: draft.id });
      dialog.close();
      shell.go(threadPath(thread));
    } catch (error) {
      refused(wrong, error);
    } finally {
      send.disabled = false;
    }
  } }, h("h2", { id: "compose-title" }, "New conversation"), field("To", to), unknown, names, h("div", { class: "pair" }, field("Kind", kind), field("Priority", priority)), field("Summary", summary), field("Message", body), wrong,
  h("p", { class: "hint" }, `Ctrl-Enter sends it as ${page.person}.`),
  h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"), send));
  form.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(); });
  const dialog = h("dialog", { class: "wide", "aria-labelledby": "compose-title" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  to.focus();
  look("/api/agents").then(({ agents = [] }) => {
    here = new Set(agents.filter((one) => !["left", "dead"].includes(one.state)).map((one) => one.name));
    names.replaceChildren(...[...here].map((name) => h("option", { value: name })));
  }).catch(() => {});  // names are a help only
}
