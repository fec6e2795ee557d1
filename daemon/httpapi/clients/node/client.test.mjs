// Each test has a twin of its name in ../python/test_client.py. BELLHOP_URL, BELLHOP_TOKENS_URL and BELLHOP_CLOCK_URL are daemons of their own.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, request } from "node:http";
import test from "node:test";
import { Bellhop, Bury, Died, Later, Message, Problem, Timeout, Unanswered } from "./index.mjs";

const bell = new Bellhop();
let topics = 0;
const fresh = () => `node.${process.pid}.t${++topics}`;
const until = async (what) => {
  for (const end = Date.now() + 60_000; ; await new Promise((again) => setTimeout(again, 20))) {
    const found = await what();
    if (found) return found;
    assert.ok(Date.now() < end, `waited a minute for ${what}`);
  }
};
const gone = (topic, id) => until(() => bell.inspect(topic, id).then(() => false, (err) => err.status === 404));
const state = (topic, id) => bell.inspect(topic, id).then((info) => info.state, () => "gone");
const rejects = (promise, type, check) => assert.rejects(promise, (err) => (assert.ok(err instanceof type, err.stack), check(err), true));

// A worker that is stopped with the test, and the errors that it told.
function work(t, topic, handler, options) {
  const told = [];
  const worker = bell.work(topic, handler, { onError: (err, m) => told.push([err, m]), ...options });
  t.after(() => worker.stop());
  return Object.assign(worker, { told });
}

// A proxy in front of the daemon that treats each request in turn as one of treatments says, and those behind them well: lost has its answer
// lost, refused is not passed on, busy is answered with 503. It notes what it got.
async function proxy(t, ...treatments) {
  const got = [];
  const server = createServer((from, to) => {
    const how = treatments.shift();
    got.push(`${from.method} ${from.url}`);
    if (how === "refused") return from.socket.destroy();
    if (how === "busy") return to.writeHead(503, { "Retry-After": "0", "Content-Type": "application/problem+json" }).end("{}");
    const passed = request(bell.url + from.url, { method: from.method, headers: from.headers }, (answer) => {
      if (how !== "lost") return answer.pipe(to.writeHead(answer.statusCode, answer.headers));
      answer.resume().on("end", () => from.socket.destroy());
    });
    passed.on("error", () => from.socket.destroy());
    from.socket.on("close", () => passed.destroy());
    from.pipe(passed);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  t.after(() => (server.close(), server.closeAllConnections()));
  return { got, url: `http://127.0.0.1:${server.address().port}`, cut: () => server.closeAllConnections() };
}

test("publish text and bytes as they are and all else as json", async () => {
  const topic = fresh();
  for (const [id, body, bytes, type] of [
    ["text", "ü€", Buffer.from("ü€"), undefined],
    ["bytes", Buffer.from([0, 255, 10]), Buffer.from([0, 255, 10]), undefined],
    ["object", { a: [1, "ü"] }, Buffer.from('{"a":[1,"ü"]}'), "application/json"],
    ["number", 12, Buffer.from("12"), "application/json"],
    ["nothing", undefined, Buffer.from(""), undefined],
  ]) {
    await bell.publish(topic, body, { id, delay: "1h" });
    const m = new Message(await bell.inspect(topic, id));
    assert.deepEqual([m.bytes, m.content_type], [bytes, type], id);
  }
  const { id } = await bell.publish(topic, { a: 1 }, { headers: { Tenant: "ü€ 1" }, content_type: "application/x", key: "acct-7", attempts: 3 });
  const m = new Message(await bell.inspect(topic, id));
  assert.deepEqual([m.headers, m.content_type, m.key, m.attempts, m.json()], [{ Tenant: "ü€ 1" }, "application/x", "acct-7", 3, { a: 1 }]);
});

test("publish answers what became of it", async () => {
  const topic = fresh();
  const first = await bell.publish(topic, "a", { id: "x", delay: "1h" });
  assert.deepEqual([first.outcome, first.state], ["created", "scheduled"]);
  await rejects(bell.publish(topic, "b", { id: "x" }), Problem, (err) => assert.deepEqual([err.status, err.type], [409, "urn:bellhop:exists"]));
  assert.equal((await bell.publish(topic, "b", { id: "x", if_exists: "keep" })).outcome, "kept");
});

test("a refusal names all faults at once", () =>
  rejects(bell.publish(fresh(), "x", { delay: "soon", ttl: "1", newer: 1 }), Problem, (err) => {
    assert.deepEqual([err.status, err.type, err.errors.map((fault) => fault.name).sort()], [422, "urn:bellhop:invalid", ["delay", "newer", "ttl"]]);
    assert.match(err.message, /delay "soon"/);
  }));

test("inspect cancel and reschedule", async () => {
  const topic = fresh();
  const { id, due } = await bell.publish(topic, "x", { delay: "1h" });
  assert.ok((await bell.reschedule(topic, id, { delay: "2h" })).due > due);
  assert.equal((await bell.cancel(topic, id)).cancelled, true);
  await rejects(bell.inspect(topic, id), Problem, (err) => assert.equal(err.status, 404));
});

test("wait returns the result", async (t) => {
  const topic = fresh();
  work(t, topic, (m) => ({ text: "done", object: { ü: 1 }, bytes: Buffer.from([255]) })[m.text], { keep: "1h" });
  for (const [body, want] of [["text", "done"], ["object", '{"ü":1}'], ["bytes", Buffer.from([255])]]) {
    const { id } = await bell.publish(topic, body, { delay: "50ms" });
    assert.deepEqual(await bell.wait(topic, id), want);
  }
});

test("wait raises what a message died of", async (t) => {
  const topic = fresh();
  work(t, topic, () => { throw new Bury("no such order"); });
  const { id } = await bell.publish(topic, "x", { delay: "50ms" });
  await rejects(bell.wait(topic, id, { timeout: "1m" }), Died, (err) => assert.deepEqual([err.message, err.info.state], ["no such order", "dead"]));
});

test("wait ends after its timeout", async () => {
  const topic = fresh();
  const { id } = await bell.publish(topic, "x", { delay: "1h" });
  await rejects(bell.wait(topic, id, { timeout: "50ms" }), Timeout, (err) => assert.match(err.message, /is scheduled after 50ms/));
  await rejects(bell.wait(topic, "other", { timeout: "1m" }), Problem, (err) => assert.equal(err.status, 404));
});

test("listen resumes where it was", async (t) => {
  const topic = fresh();
  const { url, cut } = await proxy(t);
  const stop = new AbortController();
  const heard = [];
  for (const n of [1, 2]) await bell.broadcast(topic, n, { id: `${n}` });
  for await (const m of new Bellhop({ url }).listen(topic, { since: "beginning", signal: stop.signal })) {
    heard.push(m.json());
    if (heard.length === 2) {
      cut();
      await bell.broadcast(topic, { ü: 3 });
    }
    if (heard.length === 3) stop.abort();
  }
  assert.deepEqual(heard, [1, 2, { ü: 3 }]);
});

test("call makes any other call", async () => {
  const topic = fresh();
  await bell.call("PATCH", `/v1/topics/${topic}/settings`, { body: { attempts: 7 } });
  assert.equal((await bell.call("GET", `/v1/topics/${topic}/settings`)).attempts, 7);
  assert.ok(Array.isArray((await bell.call("GET", "/v1/workers")).workers));
});

test("a handler that returns acknowledges", async (t) => {
  const topic = fresh();
  const seen = [];
  work(t, topic, (m) => void seen.push(m), { concurrency: 2 });
  await bell.publish(topic, { total: 12 }, { id: "a", key: "k", headers: { Tenant: "7" } });
  await gone(topic, "a");
  const [m] = seen;
  assert.deepEqual([m.topic, m.id, m.attempt, m.key, m.headers, m.history, m.json()], [topic, "a", 1, "k", { Tenant: "7" }, [], { total: 12 }]);
  assert.ok(m.fence > 0 && m.late_ms >= 0 && Date.parse(m.due) > 0);
});

test("a handler that fails leaves its reason and its worker", async (t) => {
  const topic = fresh();
  const { told } = work(t, topic, () => { throw new RangeError("no ü\nsuch customer " + "x".repeat(3000)); });
  await bell.publish(topic, "x", { id: "a", attempts: 1 });
  await until(async () => (await state(topic, "a")) === "dead");
  const { reason, history } = await bell.inspect(topic, "a");
  assert.match(reason, /no ü\s+such customer xxx/);
  assert.equal(history[0].worker, bell.name);
  assert.deepEqual(told.map(([err, m]) => [err.name, m.id]), [["RangeError", "a"]]);
});

test("a handler of the other kind may stand there", async (t) => {
  const topic = fresh();
  work(t, topic, async (m) => (await null, `${m.text}!`), { keep: "1h" });
  const { id } = await bell.publish(topic, "x", { delay: "50ms" });
  assert.equal(await bell.wait(topic, id), "x!");
});

test("later uses up no attempt", async (t) => {
  const topic = fresh();
  const seen = [];
  work(t, topic, (m) => {
    seen.push(m.attempt);
    if (seen.length < 3) throw new Later("10ms");
  });
  await bell.publish(topic, "x", { id: "a" });
  await gone(topic, "a");
  assert.deepEqual(seen, [1, 1, 1]);
});

test("bury keeps a dead letter", async (t) => {
  const topic = fresh();
  const { told } = work(t, topic, () => { throw new Bury("ü is no order"); });
  await bell.publish(topic, "x", { id: "a" });
  await until(async () => (await state(topic, "a")) === "dead");
  assert.equal((await bell.inspect(topic, "a")).reason, "ü is no order");
  assert.deepEqual(told, []);
});

test("a lease is kept while a handler runs", async (t) => {
  const topic = fresh();
  let end;
  const seen = [];
  work(t, topic, (m) => (seen.push(m.attempt), new Promise((resolve) => (end = resolve))), { lease: "3s" });
  await bell.publish(topic, "x", { id: "a" });
  const first = await until(() => bell.inspect(topic, "a").then((info) => info.until));
  await until(async () => Date.parse((await bell.inspect(topic, "a")).until) > Date.parse(first) + 3000);
  end();
  await gone(topic, "a");
  assert.deepEqual(seen, [1]);
});

test("a message with a shorter lease is kept too", async (t) => {
  const topic = fresh();
  let end;
  const seen = [];
  work(t, topic, (m) => (seen.push(m.attempt), new Promise((resolve) => (end = resolve))), { lease: "5m" });
  await bell.publish(topic, "x", { id: "a", lease: "3s" });
  await until(() => bell.inspect(topic, "a").then((info) => Date.parse(info.until) > Date.now() + 60_000));
  end();
  await gone(topic, "a");
  assert.deepEqual(seen, [1]);
});

test("cancel with stop ends a handler", async (t) => {
  const topic = fresh();
  let why;
  work(t, topic, (m, signal) => new Promise((_, no) => signal.addEventListener("abort", () => no((why = signal.reason)))), { lease: "3s" });
  await bell.publish(topic, "x", { id: "a" });
  await until(async () => (await state(topic, "a")) === "leased");
  assert.equal((await bell.cancel(topic, "a", { stop: true })).stopping, true);
  await gone(topic, "a");
  assert.equal(why.type, "urn:bellhop:stop");
});

test("nothing is settled that another has", async (t) => {
  const topic = fresh();
  const seen = [];
  const { told } = work(t, topic, async (m, signal) => {
    seen.push(m.attempt);
    if (m.attempt === 1) await new Promise((resolve) => signal.addEventListener("abort", () => resolve((seen.push(signal.reason.type)))));
  }, { lease: "900ms" });
  await bell.publish(topic, "x", { id: "a", try_timeout: "1s" });
  await gone(topic, "a");
  assert.deepEqual(seen, [1, "urn:bellhop:lease-lost", 2]);
  assert.deepEqual(told, []);
});

test("as many are handled at a time as there are hands", async (t) => {
  const topic = fresh();
  const ends = [];
  work(t, topic, () => new Promise((end) => ends.push(end)), { concurrency: 3 });
  for (let i = 0; i < 7; i++) await bell.publish(topic, "x");
  const left = async () => (await bell.call("GET", `/v1/topics/${topic}`)).ready;
  await until(async () => ends.length === 3 && (await left()) === 4);
  ends.splice(0).forEach((end) => end());
  await until(async () => ends.length === 3 && (await left()) === 1);
  ends.splice(0).forEach((end) => end());
  await until(() => ends.length === 1);
  ends[0]();
});

test("a worker of several topics", async (t) => {
  const [a, b] = [fresh(), fresh()];
  const seen = [];
  await bell.publish(b, "x", { id: "1" });
  await bell.publish(a, "x", { id: "2", delay: "10ms" });
  await until(async () => (await state(a, "2")) === "ready");
  work(t, [a, b], (m) => void seen.push(m.id), { order: "oldest" });
  await until(() => seen.length === 2);
  assert.deepEqual(seen, ["1", "2"]);
});

test("stop ends a claim that waits", async () => {
  const topic = fresh();
  const worker = bell.work(topic, () => {});
  await until(async () => (await bell.call("GET", `/v1/topics/${topic}`)).waiting === 1);
  await worker.stop();
  await until(async () => (await bell.call("GET", `/v1/topics/${topic}`)).waiting === 0);
});

test("a signal stops all workers of a process", async (t) => {
  const topic = fresh();
  const program = `import { Bellhop } from "./index.mjs";
    for (let n = 0; n < 11; n++) new Bellhop().work("${topic}", () => {}).untilSignal();
    console.log("up");`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program]);
  t.after(() => child.kill("SIGKILL"));
  let told = "";
  child.stderr.on("data", (text) => (told += text));
  const ended = once(child, "close");
  await once(child.stdout, "data");
  child.kill("SIGTERM");
  assert.deepEqual([await ended, told], [[0, null], ""]);
});

test("stop gives back what is not done within the grace", async () => {
  const topic = fresh();
  let aborted;
  const worker = bell.work(topic, (m, signal) => new Promise(() => signal.addEventListener("abort", () => (aborted = true))), { grace: "50ms" });
  await bell.publish(topic, "x", { id: "a" });
  await until(async () => (await state(topic, "a")) === "leased");
  await worker.stop();
  const { state: its, attempts_used = 0, snoozed } = await bell.inspect(topic, "a");
  assert.deepEqual([aborted, ["ready", "scheduled"].includes(its), attempts_used, snoozed], [true, true, 0, 1]);
});

test("a claim is repeated for ever", async (t) => {
  const topic = fresh();
  const { got, url } = await proxy(t, "refused", "busy", "refused");
  const told = [];
  const worker = new Bellhop({ url }).work(topic, () => {}, { onError: (err) => told.push(err) });
  await bell.publish(topic, "x", { id: "a" });
  await gone(topic, "a");
  await worker.stop();
  assert.deepEqual(told.map((err) => err.constructor.name), ["Unanswered", "Problem", "Unanswered"]);
  assert.ok(got.length >= 5);
});

test("a publish with an id is repeated and one without is not", async (t) => {
  const topic = fresh();
  const through = await proxy(t, "lost", "lost", "refused");
  const far = new Bellhop({ url: through.url });
  const { id, outcome } = await far.publish(topic, "x", { id: "a", delay: "1h" });
  assert.deepEqual([id, outcome, through.got.length, await state(topic, "a")], ["a", "created", 4, "scheduled"]);
  const alone = await proxy(t, "lost");
  await rejects(new Bellhop({ url: alone.url }).publish(topic, "x"), Unanswered, () => assert.equal(alone.got.length, 1));
});

test("an acknowledgement whose answer is lost counts", async (t) => {
  const topic = fresh();
  const { got, url } = await proxy(t, "fine", "lost");
  const told = [];
  await bell.publish(topic, "x", { id: "a" });
  const worker = new Bellhop({ url }).work(topic, () => {}, { onError: (err) => told.push(err) });
  await gone(topic, "a");
  await until(() => got.filter((line) => line.includes("/ack?")).length === 2);
  await worker.stop();
  assert.deepEqual(told, []);
});

test("a wrong token ends a worker", async () => {
  const stranger = new Bellhop({ url: process.env.BELLHOP_TOKENS_URL, token: "wrong" });
  const told = [];
  const worker = stranger.work("a", () => {}, { onError: (err) => told.push(err.status) });
  await rejects(worker.done, Problem, (err) => assert.equal(err.status, 401));
  assert.deepEqual(told, [401]);
  const shop = new Bellhop({ url: process.env.BELLHOP_TOKENS_URL, token: "8f14e45fceea167a5a36dedd4bea2543" });
  assert.equal((await shop.publish("mail", "x")).outcome, "created");
});

test("bad input is refused before a call", () => {
  const nothing = new Bellhop({ url: "http://127.0.0.1:1" });
  for (const [call, message] of [
    [() => new Bellhop({ url: "127.0.0.1:8420" }), /^url: /],
    [() => new Bellhop({ url: "http://user:secret@host" }), /^url: /],
    [() => new Bellhop({ token: "a\nb" }), /^token: /],
    [() => nothing.work("a", () => {}, { lease: "10ms" }), /^lease 10ms: give 100ms or more/],
    [() => nothing.work("a", () => {}, { lease: "soon" }), /^lease "soon": write a duration/],
    [() => nothing.work("a", () => {}, { keep: "1" }), /^keep "1": write a duration/],
    [() => nothing.work("a", () => {}, { concurrency: 0 }), /^concurrency 0: /],
    [() => nothing.work("a", "b"), /^handler: /],
    [() => nothing.work(Array.from({ length: 33 }, (_, i) => `a${i}`), () => {}), /^topic: 33 topics; give 1 to 32/],
    [() => nothing.work([], () => {}), /^topic: 0 topics/],
    [() => new Later("soon"), /^delay "soon": write a duration/],
  ]) assert.throws(call, (err) => (assert.match(err.message, message), true));
  return rejects(nothing.publish("a", () => {}), TypeError, (err) => assert.match(err.message, /^body: JSON cannot hold a function/));
});

test("a stall is told", async (t) => {
  const topic = fresh();
  const { told } = work(t, topic, () => {
    for (const end = Date.now() + 300; Date.now() < end; );
    return new Promise((resolve) => setTimeout(resolve, 20));
  }, { lease: "300ms" });
  await bell.publish(topic, "x", { id: "a" });
  await gone(topic, "a");
  await until(() => told.some(([err]) => /stood still for 0\.\d s; messages may come twice/.test(err.message)));
});

test("advance moves a manual clock", async () => {
  const topic = fresh();
  const slow = new Bellhop({ url: process.env.BELLHOP_CLOCK_URL });
  const seen = [];
  const worker = slow.work(topic, (m) => void seen.push(m.id));
  await slow.publish(topic, "x", { id: "a", delay: "30m" });
  assert.equal((await slow.advance("29m")).delivered, 0);
  assert.equal((await slow.advance("1m")).delivered, 1);
  assert.deepEqual(seen, ["a"]);
  await worker.stop();
});
