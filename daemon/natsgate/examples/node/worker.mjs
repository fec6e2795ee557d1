// Handles the messages of the topic "order.timeout", eight at a time: each goes to one
// worker, is leased to it while its handler runs, and is gone once acknowledged.
//
//   npm install
//   node worker.mjs
//
// Start as many as you like. If a worker is killed its messages come again when their
// leases expire. At a SIGTERM it finishes what it has, and ends after at most 10 s.
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";

async function handle(m, signal) { // which is aborted where the message is cancelled with stop: pass it on to fetch
  console.log(`order ${m.headers.get("ce-id")} was not paid: ${m.string()}`);
}

const claim = JSON.stringify({ wait: "10s", worker: `${hostname()}-${process.pid}` }); // as it stands in lists of workers
const nc = await connect({ servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222", maxReconnectAttempts: -1 });
let stopping = false;
process.once("SIGTERM", () => (stopping = true));

// A claim waits for 10 s. With noMux it has an inbox of its own, so that bellhop notices
// when nobody waits for the answer any more, and gives the message to another.
async function work() {
  while (!stopping) {
    const options = { timeout: 15_000, noMux: true };
    const m = await nc.request("bellhop.claim.order.timeout", claim, options).catch((err) => err);
    const error = m.message ?? m.headers.get("Nats-Service-Error");
    if (error) await sleep(1000, console.error(`cannot claim; retrying: ${error}`));
    if (error || m.headers.get("Status") === "204") continue;
    const stop = new AbortController(); // 409: it is cancelled, or another worker has it
    const extend = () => nc.request(m.reply, "+WPI").then((r) => r.headers?.get("Nats-Service-Error-Code") === "409" && stop.abort(), () => {});
    const more = setInterval(extend, 10_000); // the lease, which is 30 s
    const failed = (err) => `-NAK ${JSON.stringify({ reason: String(err) })}`; // again after a backoff
    m.respond(await handle(m, stop.signal).then(() => "+ACK", failed));
    clearInterval(more);
  }
}

console.log("waiting");
await Promise.all(Array.from({ length: 8 }, work));
await nc.drain();
