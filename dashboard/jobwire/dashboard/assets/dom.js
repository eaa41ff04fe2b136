// Building the page from nodes only: texts of workers never become markup.

// Controls, and marks that turn the direction of writing: with them a question can be made to read as another.
const DECEIVING = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Return a text of a stranger with every invisible character made visible. */
export function plain(text) {
  return String(text).replace(DECEIVING, "\ufffd");
}

/** Return a new element; `props` are properties, `data` and `aria-*` go where they belong. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  const shown = children.flat().filter((child) => child !== null && child !== undefined);
  node.append(...shown.map((child) => (typeof child === "string" ? plain(child) : child)));
  return node;
}

/** Return a new element of a drawing. */
export function s(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children.map((child) => (typeof child === "string" ? plain(child) : child)));
  return node;
}

/** Set a node's text, touching it only where it differs. */
export function say(node, text) {
  const shown = plain(text);
  if (node.textContent !== shown) node.textContent = shown;
}

/** Tell whether a value is another one than the last of this name: only then need `owner` draw it again. */
export function changed(owner, name, value) {
  const key = JSON.stringify(value);
  const differs = owner[name] !== key;
  owner[name] = key;
  return differs;
}

/** Return a title and what stands below it, for a list of facts. */
export function fact(title, ...value) {
  return h("div", {}, h("dt", {}, title), h("dd", {}, ...value));
}

/** Set a data attribute, touching it only where it differs. */
export function mark(node, name, value) {
  if (node.dataset[name] !== value) node.dataset[name] = value;
}

/** Return a jobwire command for the directory that this page shows. */
export function jobwire(words) {
  const home = document.documentElement.dataset.home;
  const quoted = /^[\w./-]+$/.test(home) ? home : `'${home.replaceAll("'", "'\\''")}'`;
  return `jobwire --home ${quoted} ${words}`;
}

/** Return a button that copies `text` and says so. */
export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "copy", title: `Copy: ${text}` }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it by hand";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

/** Go to the login form, and from there back to what is shown now. */
export function logIn() {
  location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
}

/** Return the JSON answer of the server; an Error with its words otherwise. */
export async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { accept: "application/json", ...options.headers } });
  if (answer.status === 401) {
    logIn();
    return new Promise(() => {});
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const error = new Error(body.error || `the server answered ${answer.status}`);
    error.hint = body.hint || "";
    error.status = answer.status;
    throw error;
  }
  return body;
}
