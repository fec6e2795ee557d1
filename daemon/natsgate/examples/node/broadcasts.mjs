// Prints the broadcasts of the topic "prices".
//
//   npm install
//   node broadcasts.mjs
//
// Write "prices.>" instead to get the broadcasts of prices.gold and all topics below. The
// program misses broadcasts that are sent while it is not connected; a JetStream stream
// keeps them (BELLHOP_NATS_JETSTREAM).
import { connect } from "@nats-io/transport-node";

const nc = await connect({
  servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222",
  maxReconnectAttempts: -1,
});

const broadcasts = nc.subscribe("bellhop.broadcast.prices");
await nc.flush(); // no broadcast is missed from here on
console.log("listening");

for await (const m of broadcasts) {
  console.log(m.string()); // or m.json(), or m.data for the bytes
  for (const name of m.headers.keys()) {
    if (name.startsWith("ce-")) { // attributes of a CloudEvent
      console.log(`  ${name}: ${decodeURIComponent(m.headers.get(name))}`);
    }
  }
}
