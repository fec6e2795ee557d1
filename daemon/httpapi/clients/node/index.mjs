// A client of Bellhop, delayed and broadcast notifications: README.md tells how to use it, index.d.ts describes each part.
import { hostname } from "node:os";

const units = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 };

function milliseconds(name, duration) {
  if (!/^((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h|d))+$/.test(duration)) throw new TypeError(`${name} ${JSON.stringify(duration)}: write a duration, such as "30s" or "1h30m"`);
  return [...duration.matchAll(/([\d.]+)([a-zµ]+)/g)].reduce((sum, [, n, unit]) => sum + n * units[unit], 0);
}

export class Later extends Error {
  constructor(delay) {
    super(`again in ${delay}`);
    milliseconds("delay", delay);
    this.delay = delay;
  }
}
export class Bury extends Error {}
export class Timeout extends Error {}
export class Unanswered extends Error {}
export class Died extends Error {
  constructor(info) {
    super(info.reason || "it is dead");
    this.info = info;
  }
}
export class Problem extends Error {
  constructor(response, problem) {
    super(problem.detail || `${response.status} ${response.statusText}`);
    Object.assign(this, { type: "about:blank", ...problem, status: response.status });
    this.retryAfter = Number(response.headers.get("retry-after")) * 1000 || 0;
  }
}

export class Message {
  constructor(fields) {
    Object.assign(this, { headers: {}, history: [] }, fields);
  }
  get bytes() {
    return this.body_base64 === undefined ? Buffer.from(this.body ?? "") : Buffer.from(this.body_base64, "base64");
  }
  get text() {
    return this.body ?? this.bytes.toString();
  }
  json() {
    return JSON.parse(this.text);
  }
}
export class Gap {
  constructor(fields) {
    Object.assign(this, fields);
  }
}

const again = (err) => err instanceof Unanswered || err.status >= 500 || [408, 429].includes(err.status);
const isType = (err, ...types) => types.some((type) => err.type === `urn:bellhop:${type}`);
const backoff = (n) => Math.min(5000, 100 * 2 ** n) * (0.5 + Math.random() / 2);
const query = (fields) => new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== undefined)).toString();
const topicPath = (topic) => `/v1/topics/${encodeURIComponent(topic)}`;
const messagePath = (topic, id) => `${topicPath(topic)}/messages/${encodeURIComponent(id)}`;

function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => (clearTimeout(timer), signal?.removeEventListener("abort", end), resolve());
    const timer = setTimeout(end, signal?.aborted ? 0 : ms);
    signal?.addEventListener("abort", end);
  });
}

// The bytes of a body or a result, and their content type: text and bytes as they are, all else as JSON.
function encode(body = "") {
  if (typeof body === "string") return [Buffer.from(body)];
  if (body instanceof Uint8Array || body instanceof ArrayBuffer) return [body];
  const text = JSON.stringify(body);
  if (text === undefined) throw new TypeError(`body: JSON cannot hold a ${typeof body}; give text, bytes, or what it can`);
  return [Buffer.from(text), "application/json"];
}

// The fields of server-sent events. The daemon sends something each 15 s: silence for 45 is a connection that is gone.
async function* events(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const cancel = () => reader.cancel().catch(() => {});
  signal?.addEventListener("abort", cancel);
  try {
    for (let rest = ""; ; ) {
      const silence = setTimeout(cancel, 45_000);
      const { value, done } = await reader.read().catch(() => ({ done: true })); // the connection is cut
      clearTimeout(silence);
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) yield Object.fromEntries(part.split("\n").map((line) => line.split(/: ?(.*)/s)));
    }
  } finally {
    signal?.removeEventListener("abort", cancel);
    cancel();
  }
}

export class Bellhop {
  #headers;

  constructor({ url = process.env.BELLHOP_URL ?? "http://127.0.0.1:8420", token = process.env.BELLHOP_TOKEN, name } = {}) {
    if (!/^https?:\/\/[^/@]+(\/[^@]*)?$/.test(url)) throw new TypeError("url: write http:// or https:// and a host, and give the token apart");
    if (/[^\x21-\x7e]/.test(token ?? "")) throw new TypeError("token: it holds a space, a line break, or what is not ASCII");
    this.url = url.replace(/\/+$/, "");
    this.name = name ?? `${hostname()}-${process.pid}`.slice(-64);
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  // Makes a call, and returns what is read of its response. A signal ends it only until that begins: what is handed out then is in hand.
  async #once(method, path, { body, headers, signal, timeout = 10_000 }, read) {
    const ended = new AbortController();
    const abort = () => ended.abort();
    const timer = setTimeout(abort, signal?.aborted ? 0 : timeout);
    signal?.addEventListener("abort", abort);
    try {
      const response = await fetch(this.url + path, { method, body, headers: { ...this.#headers, ...headers }, signal: ended.signal });
      signal?.removeEventListener("abort", abort);
      if (!response.ok) throw new Problem(response, await response.json().catch(() => ({})));
      return await read(response);
    } catch (err) {
      if (!err.cause && !ended.signal.aborted) throw err;
      const why = err.cause?.code ?? err.cause?.message ?? `no answer within ${timeout / 1000} s`;
      throw new Unanswered(`${method} ${this.url}${path}: ${why}`, { cause: err });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  // Makes a call, again for repeat ms where it may be. arrived reports whether a problem shows that a call before, which had no answer, arrived.
  async ask(method, path, { repeat = 0, arrived = () => false, told = () => {}, ...how } = {}) {
    const until = Date.now() + repeat;
    for (let n = 0, unanswered = false; ; n++) {
      try {
        return await this.#once(method, path, how, (response) => (response.status === 204 ? null : response.json()));
      } catch (err) {
        if (unanswered && arrived(err)) return null;
        unanswered ||= err instanceof Unanswered;
        const wait = Math.max(err.retryAfter ?? 0, backoff(n));
        if (how.signal?.aborted || !again(err) || Date.now() + wait > until) throw err;
        told(err);
        await pause(wait, how.signal);
      }
    }
  }

  call(method, path, { query: fields = {}, body, headers } = {}) {
    const [bytes, type] = body === undefined ? [] : encode(body);
    return this.ask(method, `${path}?${query(fields)}`, { body: bytes, headers: { ...(type && { "Content-Type": type }), ...headers } });
  }

  async #send(kind, topic, body, { headers = {}, content_type, ...options }) {
    const [bytes, type] = encode(body);
    const all = Object.entries(headers).map(([name, value]) => [`Bellhop-Header-${name}`, Buffer.from(value).toString("latin1")]); // a byte a letter
    if (content_type ?? type) all.push(["Content-Type", content_type ?? type]);
    const how = { body: bytes, headers: Object.fromEntries(all), repeat: options.id ? 30_000 : 0, arrived: (err) => isType(err, "exists") };
    return (await this.ask("POST", `${topicPath(topic)}/${kind}?${query(options)}`, how)) ?? { topic, id: options.id, outcome: "created" };
  }

  publish(topic, body, options = {}) {
    return this.#send("messages", topic, body, options);
  }

  broadcast(topic, body, options = {}) {
    return this.#send("broadcasts", topic, body, options);
  }

  inspect(topic, id) {
    return this.ask("GET", messagePath(topic, id), { repeat: 30_000 });
  }

  cancel(topic, id, options = {}) {
    return this.ask("DELETE", `${messagePath(topic, id)}?${query(options)}`, { repeat: 30_000 });
  }

  reschedule(topic, id, options) {
    return this.ask("PATCH", `${messagePath(topic, id)}?${query(options)}`, { repeat: 30_000 });
  }

  async wait(topic, id, { timeout, signal } = {}) {
    const until = timeout === undefined ? Infinity : Date.now() + milliseconds("timeout", timeout);
    for (;;) {
      const wait = Math.min(240_000, Math.max(0, until - Date.now())); // fetch waits five minutes
      const info = await this.ask("GET", `${messagePath(topic, id)}?wait=${Math.ceil(wait)}ms`, { repeat: until - Date.now(), timeout: wait + 10_000, signal });
      if (info.state === "dead") throw new Died(info);
      if (info.state === "done") return info.result_base64 === undefined ? info.result : Buffer.from(info.result_base64, "base64");
      if (Date.now() >= until) throw new Timeout(`${topic}:${id} is ${info.state} after ${timeout}`);
    }
  }

  work(topic, handler, options = {}) {
    return new Worker(this, topic, handler, options);
  }

  async *listen(pattern, { since, signal } = {}) {
    for (let last, n = 0; !signal?.aborted; n++) {
      try {
        const headers = last === undefined ? {} : { "Last-Event-ID": last };
        const body = await this.#once("GET", `${topicPath(pattern)}/broadcasts?${query({ since })}`, { headers, signal }, (response) => response.body);
        for await (const { event, id, data } of events(body, signal)) {
          [last, n] = [id ?? last, 0];
          if (data) yield new (event === "gap" ? Gap : Message)({ ...JSON.parse(data), bookmark: last });
        }
      } catch (err) {
        if (!again(err)) throw err;
      }
      await pause(backoff(n), signal);
    }
  }

  advance(duration) {
    return this.ask("POST", `/v1/clock?${query({ advance: duration })}`, { timeout: 600_000 });
  }
}

class Worker {
  #bell;
  #handler;
  #o;
  #hands = new Map(); // each message in hand, and what gives it back
  #stopping = new AbortController();
  #changed = () => {};

  constructor(bell, topic, handler, { concurrency = 1, lease = "30s", keep, order, min_age, grace = "10s", onError = console.error }) {
    const topics = [topic].flat();
    if (topics.length < 1 || topics.length > 32) throw new TypeError(`topic: ${topics.length} topics; give 1 to 32`);
    if (typeof handler !== "function") throw new TypeError("handler: give a function of a message and a signal");
    if (!Number.isInteger(concurrency) || concurrency < 1) throw new TypeError(`concurrency ${concurrency}: give a whole number, 1 or more`);
    if (milliseconds("lease", lease) < 100) throw new TypeError(`lease ${lease}: give 100ms or more`);
    if (keep !== undefined) milliseconds("keep", keep);
    [this.#bell, this.#handler] = [bell, handler];
    this.#o = { concurrency, lease, keep, onError, leaseMs: milliseconds("lease", lease), graceMs: milliseconds("grace", grace) };
    const [path, several] = topics.length > 1 ? ["/v1/claim", topics.join()] : [`${topicPath(topics[0])}/claim`];
    this.done = this.#run(`${path}?${query({ topics: several, order, min_age, lease, worker: bell.name, wait: "30s" })}`);
    this.done.catch(() => {}); // onError has it, and whoever waits
  }

  async #run(path) {
    const { signal } = this.#stopping;
    try {
      while (!signal.aborted) {
        const free = Math.min(500, this.#o.concurrency - this.#hands.size);
        if (free > 0) {
          const how = { signal, timeout: 40_000, repeat: Infinity, told: (err) => this.#tell(err) };
          const { messages } = await this.#bell.ask("POST", `${path}&max=${free}`, how);
          for (const fields of messages) this.#handle(new Message(fields));
        } else await this.#change();
      }
    } catch (err) {
      if (signal.aborted) return;
      this.#tell(err);
      throw err;
    } finally {
      const late = setTimeout(() => this.#hands.forEach((giveBack) => giveBack()), this.#o.graceMs);
      while (this.#hands.size > 0) await this.#change();
      clearTimeout(late);
    }
  }

  #change() {
    return new Promise((resolve) => (this.#changed = resolve));
  }

  #tell(err, message) {
    try {
      this.#o.onError(err, message);
    } catch (err) {
      console.error(err);
    }
  }

  // Hands a message to the handler, keeps its lease meanwhile, and settles it.
  async #handle(m) {
    const abort = new AbortController();
    const late = new Promise((resolve) => {
      this.#hands.set(m, () => (resolve(["nack", { attempt: "keep", delay: "0s" }]), abort.abort(new Error("the worker stops"))));
    });
    const lease = this.#keep(m, abort);
    const how = await Promise.race([this.#attend(m, abort.signal), late]);
    clearTimeout(lease.timer);
    lease.timer = null;
    if (!lease.lost) await this.#settle(m, ...how).catch((err) => this.#tell(err, m));
    this.#hands.delete(m);
    this.#changed();
  }

  // Returns what settles a message, once its handler has ended.
  async #attend(m, signal) {
    try {
      const result = await this.#handler(m, signal);
      return this.#o.keep === undefined || result === undefined ? ["ack"] : ["ack", { keep: this.#o.keep }, ...encode(result)];
    } catch (err) {
      if (err instanceof Later) return ["nack", { attempt: "keep", delay: err.delay }];
      const reason = String((err instanceof Bury && err.message) || err).slice(0, 1000);
      if (err instanceof Bury) return ["nack", { dead: true, reason }];
      this.#tell(err, m);
      return ["nack", { reason }];
    }
  }

  // Extends the lease of a message each third, at first of that which it came with.
  #keep(m, abort) {
    const lease = { lost: false };
    const extendIn = (ms) => {
      const due = Date.now() + ms;
      lease.timer = setTimeout(async () => {
        const late = Date.now() - due;
        if (late > ms) this.#tell(new Error(`the event loop stood still for ${(late / 1000).toFixed(1)} s; messages may come twice`), m);
        await this.#settle(m, "extend", { lease: this.#o.lease }).catch((err) => {
          if (!isType(err, "stop", "lease-lost")) return this.#tell(err, m);
          lease.lost = isType(err, "lease-lost");
          abort.abort(err);
        });
        if (lease.timer !== null && !abort.signal.aborted) extendIn(this.#o.leaseMs / 3);
      }, ms);
    };
    const came = m.receipt / 1000 - Date.parse(m.due) - m.late_ms;
    extendIn(Math.min(this.#o.leaseMs, Math.max(100, came)) / 3);
    return lease;
  }

  #settle(m, how, fields = {}, bytes, type) {
    const path = `${messagePath(m.topic, m.id)}/${how}?${query({ receipt: m.receipt, ...fields })}`;
    const headers = type ? { "Content-Type": type } : {};
    return this.#bell.ask("POST", path, { body: bytes, headers, repeat: how === "extend" ? 0 : this.#o.leaseMs, arrived: (err) => isType(err, "lease-lost") });
  }

  stop() {
    this.#stopping.abort();
    this.#changed();
    return this.done;
  }

  async untilSignal() {
    untilSignal.add(this);
    for (const signal of signals) if (!process.listeners(signal).includes(stopAll)) process.on(signal, stopAll);
    await this.done.finally(() => untilSignal.delete(this) && untilSignal.size === 0 && hearNone());
  }
}

// The workers that wait for a signal have one listener, since a process warns of more than ten. A second signal ends the process.
const untilSignal = new Set();
const signals = ["SIGTERM", "SIGINT"];
const hearNone = () => signals.forEach((signal) => process.removeListener(signal, stopAll));

function stopAll() {
  hearNone();
  for (const worker of untilSignal) worker.stop().catch(() => {});
}
