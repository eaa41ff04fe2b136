// A graph of few nodes as inline SVG: layers from left to right, what nothing leads to first.

import { s } from "./dom.js";

const WIDE = 180, HIGH = 36, GAP_X = 60, GAP_Y = 14, LETTERS = 20, TOP = 26;
export const MOST_NODES = 150;

/** Return each node's layer: one more than the farthest that leads to it; who is in a circle counts once. */
export function layers(ids, edges) {
  const before = new Map(ids.map((id) => [id, []]));
  for (const [from, to] of edges) if (before.has(from) && before.has(to)) before.get(to).push(from);
  const layer = new Map();
  for (const start of ids) {
    // By hand and not by recursion: a chain may be longer than the stack.
    const path = [[start, 0]];
    const open = new Set([start]);
    while (path.length) {
      const [id, next] = path.at(-1);
      const others = before.get(id);
      if (layer.has(id) || next >= others.length) {
        if (!layer.has(id)) layer.set(id, Math.max(-1, ...others.map((other) => layer.get(other) ?? -1)) + 1);
        open.delete(id);
        path.pop();
        continue;
      }
      path.at(-1)[1] += 1;
      const other = others[next];
      if (!layer.has(other) && !open.has(other)) { open.add(other); path.push([other, 0]); }
    }
  }
  return layer;
}

/** Return the graph of `nodes` ({id, text, sub, group, href}) with `edges` ([from, to, bad]). */
export function drawGraph(nodes, edges, label) {
  const layer = layers(nodes.map((node) => node.id), edges);
  const rows = new Map();
  const at = new Map();
  for (const node of nodes) {
    const column = layer.get(node.id);
    const row = rows.get(column) ?? 0;
    rows.set(column, row + 1);
    at.set(node.id, [column * (WIDE + GAP_X) + 4, row * (HIGH + GAP_Y) + TOP]);
  }
  const width = Math.max(...layer.values(), 0) * (WIDE + GAP_X) + WIDE + 8;
  const height = Math.max(...rows.values(), 1) * (HIGH + GAP_Y) + TOP;
  const lines = edges.filter(([from, to]) => at.has(from) && at.has(to)).map(([from, to, bad]) => {
    const [x, y] = at.get(from), [u, v] = at.get(to);
    const [left, right, top, end] = [x + WIDE, u, y + HIGH / 2, v + HIGH / 2];
    const bend = Math.max(GAP_X / 2, Math.abs(right - left) / 3);
    // Over what stands between: an edge behind a box looks like two.
    const lift = Math.abs(layer.get(to) - layer.get(from)) > 1 ? HIGH : 0;
    return s("path", { class: bad ? "edge bad" : "edge", d: `M${left} ${top}C${left + bend} ${top - lift} ${right - bend} ${end - lift} ${right - 6} ${end}`, "marker-end": bad ? "url(#head-bad)" : "url(#head)" });
  });
  const boxes = nodes.map((node) => {
    const [x, y] = at.get(node.id);
    const short = node.text.length > LETTERS ? `${node.text.slice(0, LETTERS - 1)}…` : node.text;
    const box = s("g", { class: "node", "data-group": node.group ?? "", transform: `translate(${x} ${y})` },
      s("title", {}, [node.text, node.sub].filter(Boolean).join("\n")), s("rect", { width: WIDE, height: HIGH, rx: 6 }),
      s("text", { x: 10, y: 15 }, short), s("text", { x: 10, y: 29, class: "small" }, (node.sub ?? "").slice(0, LETTERS + 7)));
    return node.href ? s("a", { href: node.href, "data-nav": "" }, box) : box;
  });
  const head = (id) => s("marker", { id, viewBox: "0 0 8 8", refX: 2, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8Z", class: id }));
  return s("svg", { class: "graph", role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` }, s("defs", {}, head("head"), head("head-bad")), ...lines, ...boxes);
}
