// Times and numbers as people read them. The server's clock counts, not the browser's.

let offset = 0;

/** Note the server's time (epoch seconds). */
export function serverTime(now) {
  offset = now - Date.now() / 1000;
}

/** Return the server's time in epoch seconds. */
export function now() {
  return Date.now() / 1000 + offset;
}

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** Return a length of time in at most two units: 45s, 3m 10s, 2h, 1d 4h. */
export function words(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [name, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count}${name}`);
    else if (parts.length) break;
  }
  return parts.slice(0, 2).join(" ") || "0s";
}

/** Return a number with its words: 1 job waits, 2 jobs wait. */
export function counted(count, one, many) {
  return `${count} ${count === 1 ? one : many}`;
}

/** Return how long ago a moment was, in one unit: 45s ago, 3m ago, 2h ago. */
export function ago(at) {
  return `${words(now() - at).split(" ")[0]} ago`;
}

/** Return a short length of time with what matters: 3 ms, 1.2 s, 4m 10s. */
export function brief(seconds) {
  if (seconds <= -0.0005) return `−${brief(-seconds)}`;
  if (seconds < 0) return brief(0);
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${Number(seconds.toFixed(1))} s`;
  return words(seconds);
}

/** Return a number with few digits: 0.04, 3.2, 128, 12k. */
export function short(value) {
  if (value === 0) return "0";
  if (Math.abs(value) >= 10000) return `${Math.round(value / 1000)}k`;
  if (Math.abs(value) >= 100) return String(Math.round(value));
  return String(Number(value.toPrecision(2)));
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const HOURS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** Return the local time of day of an epoch second; with the day where it is not today. */
export function clock(at) {
  const date = new Date(at * 1000);
  if (Number.isNaN(date.getTime())) return "?";
  const today = new Date(now() * 1000).toDateString() === date.toDateString();
  return today ? CLOCK.format(date) : `${DAY.format(date)} ${CLOCK.format(date)}`;
}

/** Return the label of a moment on an axis that spans `length` seconds. */
export function tick(at, length) {
  const date = new Date(at * 1000);
  return length > 2 * 86400 ? DAY.format(date) : HOURS.format(date);
}

/** Return midnight, local time, before an epoch second. */
export function dayStart(at) {
  return new Date(at * 1000).setHours(0, 0, 0, 0) / 1000;
}

/** Return the full time for a tooltip. */
export function fullTime(at) {
  const date = new Date(at * 1000);
  // Other programs may write a time that no calendar has.
  return Number.isNaN(date.getTime()) ? "?" : date.toISOString();
}
