// Handles the messages of the topic "order.timeout", each of which goes to one
// worker: it is woken, claims, and acknowledges.
//
//   npm install
//   node worker.mjs
//
// Start as many as you like. What one has in hand when it is killed comes again
// when its lease ends, after 30s.
import { connect } from "@nats-io/transport-node";

async function handle(m) {
  console.log(`order ${m.headers.get("ce-id")} was not paid: ${m.string()}`);
}

const nc = await connect({
  servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222",
  maxReconnectAttempts: -1,
});
const topic = "order.timeout";
let free = 8; // hands: so many messages are handled at the same time
let rung = false; // since a hand looked last
let failed = false; // the last claim did

// The bell rings for n messages: as many free hands go to work.
function ring(n) {
  rung = true;
  for (; n > 0 && free > 0; n--) work();
}

// One hand works until nothing is left, and looks again if the bell rang meanwhile.
async function work() {
  free--;
  try {
    do {
      rung = false;
      for (let m = await claim(); m; m = await claim()) await settle(m);
    } while (rung);
    failed = false;
  } catch (err) {
    console.error(`cannot claim, trying again: ${err.message}`);
    failed = true;
  }
  free++;
}

// Claims one message: the reply, unless that says that there is none.
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
    console.error(err);
    m.respond("-NAK"); // again after a backoff; +TERM: never again
  }
}

const wakes = nc.subscribe(`bellhop.wake.${topic}`, { queue: "workers" }); // of the group one is woken
const beats = nc.subscribe("bellhop.beat");
await nc.flush();
console.log("waiting");

// A wake-up can get lost. So claim at the start, too, whenever no beat was heard
// for three seconds, and after a new connection.
ring(1);
const silence = setInterval(ring, 3000, 1);
each(beats, () => {
  silence.refresh();
  if (failed) ring(1);
});
each(nc.status(), (status) => status.type === "reconnect" && ring(1));
await each(wakes, (m) => ring(Number(m.string())));

async function each(all, f) {
  for await (const one of all) f(one);
}
