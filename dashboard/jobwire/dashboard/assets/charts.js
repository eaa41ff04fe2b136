// The metrics view: figures of the streaming query over a chosen range.

import { ask, copyButton, h, jobwire, mark, say } from "./dom.js";
import { brief, now, serverTime, short, words } from "./format.js";
import { lineChart, timeCeiling } from "./svg.js";
import { View } from "./views.js";

const RANGES = [[900, "15 min"], [3600, "1 hour"], [21600, "6 hours"], [86400, "1 day"], [604800, "7 days"]];
const percent = (value) => `${Math.round(value * 100)}%`;
const CARDS = [
  { key: "events", title: "Events per second, by type", unit: short, stacked: true, pick: (data) => data.events, none: "No events in this range." },
  { key: "jobs", title: "Jobs that run, and that wait for you", unit: short, pick: (data) => (data.jobs.running ? { running: data.jobs.running, "wait for you": data.jobs.waiting } : {}), none: "No jobs in this range." },
  { key: "durations", title: "Duration of finished jobs", unit: brief, top: timeCeiling, jobs: true, pick: (data) => data.durations, none: "No job finished in this range." },
  { key: "queued", title: "Wait in the queue", unit: brief, top: timeCeiling, jobs: true, pick: (data) => data.queued, none: "No job was claimed in this range." },
  { key: "error_rate", title: "Share of finished jobs that failed", unit: percent, top: () => 1, jobs: true, pick: (data) => (data.error_rate.length ? { "error rate": data.error_rate } : {}), none: "No job finished in this range." },
  { key: "waiting", title: "How long a job waited for you", unit: brief, top: timeCeiling, jobs: true, pick: (data) => data.waiting, none: "No job waited for you." },
  { key: "rejections", title: "Refused messages per second, by reason", unit: short, stacked: true, pick: (data) => data.rejections, none: "Nothing was refused." },
  { key: "delay", title: "Worker to journal (worst window of a step)", unit: brief, top: timeCeiling, pick: (data) => data.delay, none: "No events in this range." },
];

// How jobs ended that did not complete: wrong ones first, then what somebody cancelled.
const endings = ({ error = 0, timed_out = 0, failed = 0, cancelled = 0 }) =>
  [[error + failed, "failed"], [timed_out, "timed out"], [cancelled, "cancelled"]].filter(([count]) => count).map(([count, word]) => `${count} ${word}`).join(" · ");

export class ChartsView extends View {
  mount() {
    this.range = Number(new URLSearchParams(location.search).get("range")) || 3600;
    this.fresh = h("p", { class: "fresh", role: "status" }, h("i"), h("span", {}, "Reading the metrics …"));
    this.buttons = RANGES.map(([seconds, name]) => h("button", { type: "button", class: "chip", onclick: () => this.#choose(seconds), data: { seconds: String(seconds) } }, name));
    this.tiles = h("dl", { class: "tiles" });
    const command = jobwire("metrics run");
    this.startWhy = h("p");
    this.missing = h("p", { class: "missing", role: "status", hidden: true });
    this.start = h("section", { class: "start empty" }, h("h2", {}, "No figures yet"), this.startWhy,
      h("p", { class: "block" }, h("code", {}, command), copyButton(command)),
      h("p", {}, "It computes rates, durations and waiting times from the journal; this page follows by itself."));
    this.sessions = h("tbody");
    this.cards = CARDS.map((card) => this.#card(card));
    this.sessionCard = h("section", { class: "card" }, h("h2", {}, "Events by session"), h("table", { class: "attempts" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Session"), h("th", { scope: "col" }, "Events"))), this.sessions));
    this.root.replaceChildren(
      h("div", { class: "metrics-head" }, h("h1", { class: "headline" }, "Metrics"), h("div", { class: "chips", role: "group", "aria-label": "Time range" }, this.buttons), this.fresh),
      this.start, this.missing, this.tiles, h("div", { class: "cards" }, this.cards.map((card) => card.node), this.sessionCard));
    this.resize = new ResizeObserver(() => { if (this.data) this.#draw(); });
    this.resize.observe(this.root);
    this.visibility = () => { if (!document.hidden) this.#load(); };
    document.addEventListener("visibilitychange", this.visibility);
    this.second = setInterval(() => { if (this.data) this.#freshness(); }, 1000);
    this.#choose(this.range);
  }

  unmount() {
    this.gone = true;
    delete this.root.dataset.freshness;
    clearTimeout(this.timer);
    clearInterval(this.second);
    this.resize.disconnect();
    document.removeEventListener("visibilitychange", this.visibility);
  }

  #choose(seconds) {
    this.range = RANGES.some(([known]) => known === seconds) ? seconds : 3600;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.seconds === String(this.range)));
    history.replaceState(null, "", this.range === 3600 ? "/charts" : `/charts?range=${this.range}`);
    this.#load();
  }

  async #load() {
    clearTimeout(this.timer);
    const asked = this.range;
    try {
      const data = await ask(`/api/metrics?range=${asked}`);
      if (this.gone || asked !== this.range) return;
      serverTime(data.now);
      this.data = data;
      this.shell.state("live");
      this.#draw();
    } catch (error) {
      if (this.gone) return;
      this.shell.state("reconnecting");
      say(this.fresh.lastChild, error.message);
      mark(this.fresh, "state", "stopped");
    }
    if (!document.hidden) this.timer = setTimeout(() => this.#load(), asked <= 3600 ? 2000 : 10000);
  }

  #freshness() {
    const fresh = this.data.freshness;
    mark(this.fresh, "state", fresh.state);
    const age = fresh.updated_at === null ? "" : `figures ${words(now() - fresh.updated_at)} old`;
    const batch = fresh.batch_ms === null || fresh.state !== "live" ? "" : `batch ${brief(fresh.batch_ms / 1000)}`;
    say(this.fresh.lastChild, [fresh.state === "none" ? "" : fresh.state, age, batch, fresh.why].filter(Boolean).join(" · "));
  }

  #draw() {
    const data = this.data;
    this.#freshness();
    this.root.dataset.freshness = data.freshness.state;
    say(this.startWhy, data.freshness.why);
    this.missing.hidden = !data.missing;
    say(this.missing, data.missing);
    const ended = Object.values(data.finished).reduce((sum, count) => sum + count, 0);
    const tile = (title, value, note = "") => h("div", {}, h("dt", {}, title), h("dd", {}, value, note ? h("small", {}, note) : null));
    const lengths = data.durations_total;
    this.tiles.replaceChildren(
      tile("Running now", String(data.present.running), "with those that wait for you or are stuck"),
      tile("Wait for you now", String(data.present.waiting)),
      tile("Finished", String(ended), endings(data.finished)),
      tile("Typical duration", lengths.p50 === null ? "–" : brief(lengths.p50), lengths.p99 === null ? "" : `p95 ${brief(lengths.p95)} · p99 ${brief(lengths.p99)}`),
      tile("Typical wait for you", data.waiting_total.p50 === null ? "–" : brief(data.waiting_total.p50), data.waiting_total.p95 === null ? "" : `p95 ${brief(data.waiting_total.p95)}`));
    for (const card of this.cards) card.draw(data);
    this.sessions.replaceChildren(...data.sessions.map((item) => h("tr", {}, h("td", {}, item.session || "–"), h("td", {}, String(item.events)))));
    this.sessionCard.hidden = data.sessions.length === 0;
  }

  #card({ key, title, unit, stacked, top, jobs, pick, none }) {
    const plot = h("div", { class: "plot" });
    const legend = h("p", { class: "legend" });
    const node = h("section", { class: "card", data: { chart: key } }, h("h2", {}, title), plot, legend);
    let chart = null;
    let series = [];
    let whole = 0;
    const tell = (place) => legend.replaceChildren(...series.map(({ name, values }, number) => {
      const value = values[place] ?? null;
      return h("span", { class: colour(name, number) }, h("i"), `${name.replaceAll("_", " ")} `, h("b", {}, value === null ? "–" : unit(value)));
    }));
    plot.addEventListener("pointermove", (event) => {
      const found = chart?.point(event.clientX);
      if (found) { tell(found.place); legend.append(h("time", {}, found.at.slice(0, 19).replace("T", " "))); }
    });
    plot.addEventListener("pointerleave", () => { chart?.point(null); tell(whole); });
    return { node, draw: (data) => {
      series = Object.entries(pick(data)).filter(([, values]) => values.some((value) => value !== null)).map(([name, values]) => ({ name, values }));
      const empty = series.length === 0 || series.every(({ values }) => values.every((value) => !value) && key !== "error_rate" && key !== "jobs");
      if (empty) {
        chart = null;
        plot.replaceChildren(h("p", { class: "empty" }, none));
        legend.replaceChildren();
        return;
      }
      const points = jobs ? data.job_points : data.points;
      const step = jobs ? data.job_step : data.step;
      // Idle figures are complete up to now: there was nothing to count.
      const fresh = data.freshness;
      whole = complete(series, points, step, fresh.state === "idle" ? now() : fresh.updated_at ?? now());
      // Counts of jobs reach to this moment: the page knows them itself.
      if (key === "jobs") whole = points.length - 1;
      const place = whole;
      const label = `${title}: ${series.map(({ name, values }) => `${name} ${values[place] === null ? "none" : unit(values[place])}`).join(", ")}`;
      // A rate over half a step would look like a fall.
      const drawn = series.map(({ name, values }, number) => ({ colour: colour(name, number), values: stacked ? values.slice(0, whole + 1) : values }));
      chart = lineChart(plot, { points, step, series: drawn, unit, stacked, top, label });
      tell(place);
    } };
  }
}

// What is named here is not: another series never has the colour of errors.
const OTHERS = [0, 5, 6, 3, 7, 1, 2];

// What means the same has the same colour on every chart, and the colour of its state on the fleet's page.
const COLOURS = { progress: 0, completed: 1, permission_required: 2, started: 3, error: 4, running: 0, "wait for you": 2, "error rate": 4, p50: 0, p95: 3, p99: 2 };

function colour(name, number) {
  return `s${COLOURS[name] ?? OTHERS[number % OTHERS.length]}`;
}

/** Return the newest step that was over when the figures were made and has a value; a half one would mislead,
    but is better than none. */
function complete(series, points, step, madeAt) {
  const filled = points.map((_, index) => index).filter((index) => series.some(({ values }) => (values[index] ?? null) !== null));
  return filled.findLast((index) => points[index] + step <= madeAt) ?? filled.at(-1) ?? 0;
}
