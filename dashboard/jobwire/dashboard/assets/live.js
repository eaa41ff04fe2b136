// A stream that comes back by itself and goes on where it stopped.

import { logIn } from "./dom.js";
import { serverTime } from "./format.js";

const SILENCE_MS = 10000;  // the server shows a sign of life every three seconds
const HIDDEN_MS = 5000;    // browsers allow six connections to a server: hidden tabs give theirs back
const LONGEST_WAIT_MS = 4000;

export class Live {
  /** `handlers`: event name -> function(data). `onState`: live, reconnecting or paused. */
  constructor(path, handlers, onState) {
    this.path = path;
    this.handlers = handlers;
    this.onState = onState;
    this.lastId = "";
    this.seen = performance.now();
    this.wait = 250;
    this.visibility = () => this.#visibility();
    // A page that is left may be kept for the way back, with its connection: after six of them no other
    // page gets one (measured: the seventh load waited a minute).
    this.leave = () => this.#close();
    this.back = (event) => { if (event.persisted) this.#connect(); };
  }

  start() {
    document.addEventListener("visibilitychange", this.visibility);
    addEventListener("pagehide", this.leave);
    addEventListener("pageshow", this.back);
    this.watchdog = setInterval(() => {
      if (this.source && performance.now() - this.seen > SILENCE_MS) this.#again();
    }, 1000);
    this.#connect();
  }

  stop() {
    document.removeEventListener("visibilitychange", this.visibility);
    removeEventListener("pagehide", this.leave);
    removeEventListener("pageshow", this.back);
    clearInterval(this.watchdog);
    clearTimeout(this.timer);
    clearTimeout(this.hiding);
    this.#close();
  }

  #connect() {
    this.#close();
    clearTimeout(this.timer);
    this.seen = performance.now();
    const after = this.lastId ? `?after=${encodeURIComponent(this.lastId)}` : "";
    const source = new EventSource(this.path + after);
    this.source = source;
    for (const [name, handle] of Object.entries(this.handlers)) {
      source.addEventListener(name, (event) => {
        this.seen = performance.now();
        this.wait = 250;
        // Only what was handled counts as seen: an error in a handler must not skip anything silently.
        const data = JSON.parse(event.data);
        if (typeof data.now === "number") serverTime(data.now);
        handle(data);
        this.lastId = event.lastEventId;
        this.onState("live");
      });
    }
    source.onerror = () => this.#again();
  }

  #close() {
    if (this.source) this.source.close();
    this.source = null;
  }

  async #again() {
    this.#close();
    this.onState("reconnecting");
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      if (await this.#refused()) logIn();
      else this.#connect();
    }, this.wait);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
  }

  // An EventSource does not tell why it was refused.
  async #refused() {
    try {
      return (await fetch("/api/summary")).status === 401;
    } catch {
      return false;
    }
  }

  #visibility() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => { this.#close(); this.onState("paused"); }, HIDDEN_MS);
    } else if (!this.source) {
      this.#connect();
    }
  }
}
