// Compiles only if the types fit: each line behind @ts-expect-error must be refused.
import { Bellhop, Bury, Died, Gap, Later, Message, Problem, Timeout, Unanswered, type Publication, type Worker } from "bellhop-client";

const bell = new Bellhop({ url: "http://127.0.0.1:8420", token: "secret", name: "mailer" });
const sent: Publication = await bell.publish("mail", { total: 12 }, { id: "mail-1", delay: "2s", headers: { Tenant: "7" }, unique_for: "1h", newer: 1 });
await bell.publish("mail", Buffer.from([255]), { due: new Date().toISOString(), if_exists: "replace", group: "g", on_dead: "go" });
await bell.broadcast("prices", "42");
await bell.reschedule("mail", sent.id, { delay: "1h" });
const stopping: boolean = (await bell.cancel("mail", sent.id, { stop: true })).stopping;
const result: string | Buffer | undefined = await bell.wait("mail", sent.id, { timeout: "1m" });
console.log(stopping, result, await bell.inspect("mail", sent.id), await bell.advance("30m"));

const worker: Worker = bell.work(
  ["mail", "order.timeout"],
  async (message: Message, signal: AbortSignal) => {
    const [attempt, key, due]: [number, string | undefined, string] = [message.attempt, message.key, message.due];
    await fetch("http://127.0.0.1/", { method: "POST", body: message.text, headers: message.headers, signal });
    if (message.json().total > 1000 && attempt > message.history.length) throw new Later("1m");
    if (message.bytes.length === 0) throw new Bury(`${key} of ${due} is empty`);
    return { total: 12 };
  },
  { concurrency: 8, lease: "1m", keep: "1h", order: "oldest", min_age: "1s", grace: "5s", onError: (err, message) => console.error(err.message, message?.id) },
);
await worker.untilSignal();
await worker.stop();
await worker.done;

for await (const heard of bell.listen("prices.>", { since: "beginning", signal: AbortSignal.timeout(1000) })) {
  console.log(heard instanceof Gap ? heard.up_to : heard.text, heard.bookmark);
}
try {
  await bell.call("PATCH", "/v1/topics/mail/settings", { query: { a: 1 }, body: { attempts: 3 }, headers: { A: "b" } });
} catch (err) {
  if (err instanceof Problem) console.log(err.status, err.type, err.errors?.[0].name);
  if (err instanceof Died) console.log(err.info.reason);
  if (err instanceof Timeout || err instanceof Unanswered) console.log(err.message);
}

// @ts-expect-error: a duration is a text
bell.publish("mail", "x", { delay: 30 });
// @ts-expect-error: there is no such mode
bell.publish("mail", "x", { if_exists: "drop" });
// @ts-expect-error: JSON cannot hold a symbol
bell.publish("mail", Symbol("x"));
// @ts-expect-error: an option of a worker is misspelled
bell.work("mail", () => {}, { concurency: 8 });
// @ts-expect-error: a handler is a function
bell.work("mail", "handler");
// @ts-expect-error: a delay is wanted
new Later();
