// Handles the messages of the topic "order.timeout": the worker is woken, claims, and
// acknowledges. Each message goes to one worker.
//
//   npm install
//   node worker.mjs
//
// Start as many as you like. A message whose worker is killed comes again when its
// lease expires, after 30s.
import { connect } from "@nats-io/transport-node";

// What a handler throws to look at a message again later, which uses up no attempt.
class Later extends Error {}

async function handle(m) {
  if (m.string() === "pending") throw new Later("1s");
  if (m.headers.get("Bellhop-Late")) console.log("this comes later than its sender allows:"); // late_after
  console.log(`order ${m.headers.get("ce-id")} was not paid: ${m.string()}`);
}

const nc = await connect({
  servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222",
  maxReconnectAttempts: -1,
});
const topic = "order.timeout";
let free = 8; // how many more messages can be handled at the same time
let woken = false; // since the last claim began
let failed = false; // the last claim failed

// Starts to claim n messages, or as many as can be handled now.
function wake(n) {
  woken = true;
  for (; n > 0 && free > 0; n--) work();
}

// Claims and handles one message after another until none is left, and again if woken meanwhile.
async function work() {
  free--;
  try {
    do {
      woken = false;
      for (let m = await claim(); m; m = await claim()) await settle(m);
    } while (woken);
    failed = false;
  } catch (err) {
    console.error(`cannot claim; retrying: ${err.message}`);
    failed = true;
  }
  free++;
}

// Claims one message; null: there is none.
async function claim() {
  const m = await nc.request(`bellhop.claim.${topic}`, "", { timeout: 5000 });
  const refusal = m.headers.get("Nats-Service-Error");
  if (refusal) throw new Error(refusal);
  return m.headers.get("Status") === "204" ? null : m;
}

async function settle(m) {
  try {
    await handle(m); // if this takes longer than the lease, call m.respond("+WPI") now and then
    m.respond("+ACK");
  } catch (err) {
    if (err instanceof Later) {
      m.respond(`-NAK {"delay":"${err.message}","attempt":"keep"}`);
      return;
    }
    console.error(err);
    m.respond("-NAK"); // again after a backoff; +TERM: never again
  }
}

const wakes = nc.subscribe(`bellhop.wake.${topic}`, { queue: "workers" }); // wakes one of the group
const beats = nc.subscribe("bellhop.beat");
await nc.flush();
console.log("waiting");

// A wake-up can get lost. So the worker also claims at the start, after each
// reconnect, and when it has received no beat for three seconds.
wake(1);
const silence = setInterval(wake, 3000, 1);
each(beats, () => {
  silence.refresh();
  if (failed) wake(1);
});
each(nc.status(), (status) => status.type === "reconnect" && wake(1));
await each(wakes, (m) => wake(Number(m.string())));

async function each(all, f) {
  for await (const one of all) f(one);
}
