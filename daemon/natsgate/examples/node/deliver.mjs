// Handles the messages of the topic "mail" that the daemon pushes to NATS after:
// bellhop push put mail --topic mail --to nats:jobs.mail
//
//   npm install
//   node deliver.mjs
//
// Start as many as you like: each message goes to one of the queue group. The
// messages wait while none runs.
import { connect } from "@nats-io/transport-node";

// What a handler throws to look at a message again later, which uses up no attempt.
class Later extends Error {}

async function handle(m) {
  if (m.string() === "pending") throw new Later("1s");
  console.log(`mail ${m.headers.get("ce-id")}, attempt ${m.headers.get("Bellhop-Attempt")}: ${m.string()}`);
}

const nc = await connect({
  servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222",
  maxReconnectAttempts: -1,
});

const deliveries = nc.subscribe("jobs.mail", { queue: "workers" });
await nc.flush();
console.log("waiting");

// Up to 32 messages come before the first is answered, so the loop does not wait
// for each.
for await (const m of deliveries) answer(m);

async function answer(m) {
  try {
    await handle(m); // if this takes longer than 30 s, call m.respond("+WPI") now and then
    m.respond("+ACK");
  } catch (err) {
    if (err instanceof Later) {
      m.respond(`-NAK {"delay":"${err.message}","attempt":"keep"}`);
      return;
    }
    console.error(err);
    m.respond('-NAK {"delay":"5s"}'); // again after 5 s; +TERM: never again
  }
}
