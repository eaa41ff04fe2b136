// Asking twice before something is done that cannot be undone.

import { h, say } from "./dom.js";

/** Ask, for a `reason` unless that is false; `act(reason)` does it. What goes wrong is said in the dialog, which stays. */
export function confirmed({ title, word, note, keep, button, act, reason: asked = true }) {
  const reason = h("input", { type: "text", maxlength: "200", placeholder: "why (those who work on it read this)", "aria-label": "Reason" });
  const problem = h("p", { class: "wrong", role: "alert", hidden: true });
  const dialog = h("dialog", { class: "confirm", "aria-labelledby": "confirm-title" },
    h("h2", { id: "confirm-title" }, title), h("p", { class: "word" }, word), h("p", {}, note), asked ? reason : null, problem,
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, keep),
      h("button", { type: "button", class: "danger", onclick: async (event) => {
        event.target.disabled = true;
        try {
          await act(reason.value);
          dialog.close();
        } catch (error) {
          event.target.disabled = false;
          problem.hidden = false;
          say(problem, error.message);
        }
      } }, button)));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
