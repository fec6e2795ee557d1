// A worker or a publisher of TestKillWithClients. It prints a line as a handler begins and ends, or when a message is published: with
// unique_for, since its message may be handled before a publish without an answer is repeated.
import { Bellhop } from "../../../../../../daemon/httpapi/clients/node/index.mjs";

const [role, topic, lease] = process.argv.slice(2);
const bell = new Bellhop();
const onError = (err) => console.error(err.message);

async function handle(m) {
  console.log(`began ${m.id} ${m.attempt} ${m.receipt} ${m.due}`);
  await new Promise((done) => setTimeout(done, Math.random() * 20));
  console.log(`ended ${m.id}`);
}

async function publish() {
  let on = true;
  process.once("SIGTERM", () => (on = false));
  for (let n = 0; on; n++) {
    const id = `node-${process.pid}-${n}`;
    await bell.publish(topic, { n }, { id, delay: `${n % 2}00ms`, unique_for: "1m" });
    console.log(`published ${id}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

await (role === "worker" ? bell.work(topic, handle, { concurrency: 16, lease, onError }).untilSignal() : publish());
