// Handles the messages of the topic "order.timeout", eight at a time: each goes
// to one worker, is leased to it while its handler runs, and is gone once acknowledged.
// What its handler returns is kept for a day: GET …/messages/ID?wait=30s answers with it.
//
//   node worker.mjs
//
// It needs Node 18 or newer and nothing else. Start as many as you like.
import { hostname } from "node:os";

const url = process.env.BELLHOP_URL ?? "http://127.0.0.1:8420";
const topic = `${url}/v1/topics/order.timeout`;
const lease = Number(process.env.LEASE ?? 30); // seconds: so long after its worker died, a message comes again
const worker = encodeURIComponent(`${hostname()}-${process.pid}`); // as it stands in lists of workers, and with what it failed

// What a handler throws to look at a message again later, which uses up no attempt.
class Later extends Error {}

async function handle(m, signal) { // which is aborted where the message is cancelled with stop: pass it on to fetch
  const body = m.body ?? Buffer.from(m.body_base64, "base64").toString(); // which is not UTF-8
  if (body === "pending") throw new Later("1s"); // the bank has not answered yet
  console.log(`order ${m.id} was not paid: ${body}`);
  if (body.startsWith("EUR")) return `reminded of ${body}`; // return nothing to keep nothing
}

async function call(path, body) {
  const response = await fetch(topic + path, { method: "POST", body });
  if (!response.ok) throw await response.json().then((problem) => Object.assign(new Error(problem.detail), { type: problem.type }));
  return response.status === 204 ? null : response.json();
}

async function settle(m) {
  const message = `/messages/${encodeURIComponent(m.id)}`;
  // A handler may take longer than the lease. Extending it does not change the receipt.
  const stop = new AbortController();
  const extended = (err) => (err.type === "urn:bellhop:stop" ? stop.abort() : console.error(err));
  const extend = () => call(`${message}/extend?receipt=${m.receipt}&lease=${lease}s`).catch(extended);
  const heartbeat = setInterval(extend, (lease * 1000) / 3);
  try {
    const result = await handle(m, stop.signal).finally(() => clearInterval(heartbeat));
    await call(`${message}/ack?receipt=${m.receipt}${result === undefined ? "" : "&keep=1d"}`, result);
  } catch (err) {
    if (err instanceof Later) {
      await call(`${message}/nack?receipt=${m.receipt}&attempt=keep&delay=${err.message}`).catch(console.error);
      return;
    }
    console.error(err);
    // Delivered again after a backoff, or cancelled if it was to stop; if even the nack fails, when the lease ends.
    const reason = encodeURIComponent(String(err).slice(0, 500));
    await call(`${message}/nack?receipt=${m.receipt}&reason=${reason}`).catch(() => {});
  }
}

console.log("waiting");
let stopping = false; // at a SIGTERM it finishes what it has, and ends after at most 10 s
process.once("SIGTERM", () => (stopping = true));
while (!stopping) {
  try {
    // The call waits until there is a message, for at most 10s.
    const { messages } = await call(`/claim?max=8&wait=10s&lease=${lease}s&worker=${worker}`);
    await Promise.all(messages.map(settle));
  } catch (err) {
    console.error(`cannot claim; retrying: ${err.cause?.code ?? err.message}`);
    await new Promise((again) => setTimeout(again, 1000));
  }
}
