// A worker of a round with the package for Node: it has a handler at each daemon, and writes a history, as package history describes.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Bellhop, Bury, Later } from "../../../../../../daemon/httpapi/clients/node/index.mjs";

const [topic, lease, file] = process.argv.slice(2);
let last = 0;

function note(n, phase, m, more) {
  const at = Math.round((performance.timeOrigin + performance.now()) * 1000);
  const record = { at, process: process.env.FAULTS_PROCESS, n, op: "handle", phase, topic: m.topic, id: m.id, ...more };
  appendFileSync(file, JSON.stringify(record) + "\n");
}

async function handle(m, signal) {
  const n = ++last;
  note(n, "call", m, { due: Date.parse(m.due), attempt: m.attempt, receipt: m.receipt, lease: 1000, handed: true }); // perhaps
  const roll = Math.floor(Math.random() * 100);
  try {
    await sleep(roll < 3 ? 1000 + Math.random() * 300 : Math.random() * 8, null, { signal }); // some take longer than the lease
  } catch (err) {
    note(n, "unknown", m);
    throw err;
  }
  note(n, roll > 3 && roll < 10 ? "no" : "ok", m);
  if (roll === 4) throw new Bury("never");
  if (roll === 5 || roll === 6) throw new Later("70ms");
  if (roll > 6 && roll < 10) throw new Error("not this time");
}

const onError = (err, m) => console.error(`${m?.id ?? "claim"}: ${err.message}`);
const workers = process.env.FAULTS_HTTP.split(",").map((url) => new Bellhop({ url }).work(topic, handle, { concurrency: 4, lease, onError }));
console.log("faults: ready");
await Promise.all(workers.map((worker) => worker.untilSignal()));
