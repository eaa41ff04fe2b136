// Line charts as SVG, by hand: time to the right, series above zero, a crosshair that tells values.

import { s } from "./dom.js";
import { dayStart, fullTime, tick } from "./format.js";

const PAD = { left: 54, right: 8, top: 8, bottom: 20 };
const HEIGHT = 170;

/** Return a round number at or above `value`: 1, 2 or 5 times a power of ten. */
export function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

const TIMES = [0.01, 0.02, 0.1, 0.2, 1, 2, 4, 10, 20, 60, 120, 240, 600, 1200, 3600, 7200, 14400, 36000, 86400, 172800];

/** Return a round length of time at or above `seconds`, whose half is round as well. */
export function timeCeiling(seconds) {
  return TIMES.find((time) => time >= seconds * 0.9999) ?? 172800 * Math.ceil(seconds / 172800);
}

const TICKS = [60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400, 172800];

/** Return the round moments (local time) to label between two, at most `most` of them. */
function moments(from, until, most) {
  const every = TICKS.find((seconds) => (until - from) / seconds <= most) ?? TICKS.at(-1);
  const zero = dayStart(from);
  const found = [];
  for (let at = zero + Math.ceil((from - zero) / every) * every; at <= until; at += every) found.push(at);
  return found;
}

/** Draw `series` ([{colour, values}], null for no value) over `points` (epoch seconds) into `host`. */
export function lineChart(host, { points, step, series, unit, stacked = false, top: round = ceiling, label }) {
  const width = Math.max(host.clientWidth, 200);
  const inner = { width: width - PAD.left - PAD.right, height: HEIGHT - PAD.top - PAD.bottom };
  const layers = stacked ? stack(series) : series.map(({ colour, values }) => ({ colour, values, top: values, floor: null }));
  const top = round(Math.max(0, ...layers.flatMap((layer) => layer.top.filter((value) => value !== null))));
  const x = (place) => PAD.left + (points.length < 2 ? 0 : (place / (points.length - 1)) * inner.width);
  const y = (value) => PAD.top + inner.height * (1 - value / top);
  const svg = s("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const share of [0, 0.5, 1]) {
    svg.append(s("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: y(top * share), y2: y(top * share) }));
    svg.append(s("text", { class: "axis", x: PAD.left - 6, y: y(top * share) + 4, "text-anchor": "end" }, share ? unit(top * share) : "0"));
  }
  const length = step * points.length;
  const most = Math.max(2, Math.floor(inner.width / 80));
  for (const at of moments(points[0], points.at(-1), most)) {
    const place = (at - points[0]) / step;
    svg.append(s("line", { class: "grid", x1: x(place), x2: x(place), y1: PAD.top + inner.height, y2: PAD.top + inner.height + 4 }));
    const near = x(place) > width - 24 ? "end" : x(place) < 20 ? "start" : "middle";
    svg.append(s("text", { class: "axis", x: x(place), y: HEIGHT - 4, "text-anchor": near }, tick(at, length)));
  }
  // The lowest layer last: where those above it add nothing, its own line is seen.
  for (const layer of [...layers].reverse()) {
    if (stacked) svg.append(s("path", { class: `area ${layer.colour}`, d: areaPath(layer, x, y) }));
    svg.append(s("path", { class: `line ${layer.colour}`, d: linePath(layer.top, x, y) }));
    for (const [place, value] of alone(layer.top)) svg.append(s("circle", { class: `dot ${layer.colour}`, cx: x(place), cy: y(value), r: 2.5 }));
  }
  const cross = s("line", { class: "cross", y1: PAD.top, y2: PAD.top + inner.height, visibility: "hidden" });
  svg.append(cross);
  host.replaceChildren(svg);
  return {
    /** Return the place under a pointer, or null, and move the crosshair there. */
    point(clientX) {
      if (clientX === null) { cross.setAttribute("visibility", "hidden"); return null; }
      const ratio = (clientX - svg.getBoundingClientRect().left - PAD.left) / inner.width;
      const place = Math.min(Math.max(Math.round(ratio * (points.length - 1)), 0), points.length - 1);
      cross.setAttribute("x1", x(place));
      cross.setAttribute("x2", x(place));
      cross.setAttribute("visibility", "visible");
      return { place, at: fullTime(points[place]) };
    },
  };
}

function stack(series) {
  let floor = null;
  return series.map(({ colour, values }) => {
    const base = floor ?? values.map(() => 0);
    const top = values.map((value, place) => base[place] + (value ?? 0));
    floor = top;
    return { colour, values, top, floor: base };
  });
}

function linePath(values, x, y) {
  let path = "";
  let pen = "M";
  values.forEach((value, place) => {
    if (value === null) { pen = "M"; return; }
    path += `${pen}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function areaPath(layer, x, y) {
  const forth = layer.top.map((value, place) => `${x(place).toFixed(1)} ${y(value).toFixed(1)}`);
  const back = layer.floor.map((value, place) => `${x(place).toFixed(1)} ${y(value).toFixed(1)}`).reverse();
  return `M${[...forth, ...back].join("L")}Z`;
}

/** Return [place, value] of values without neighbours: a line would not show them. */
function alone(values) {
  return [...values.entries()].filter(([place, value]) => value !== null
    && (values[place - 1] ?? null) === null && (values[place + 1] ?? null) === null);
}
