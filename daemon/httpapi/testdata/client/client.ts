// Publishes, claims, acknowledges, lists and listens with a client generated from the
// OpenAPI document. If document and server differ, it does not compile, or fails.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const url = process.env.BELLHOP_URL!;
const bellhop = createClient<paths>({ baseUrl: url });

function check(fine: boolean, what: string) {
  if (!fine) throw new Error(what);
}

// Returns the data of an answer; throws if it is an error.
function data<T>(answer: { data?: T; error?: components["schemas"]["Problem"] }): T {
  if (answer.error) throw new Error(`${answer.error.status} ${answer.error.detail}`);
  return answer.data!;
}

const topic = "order.timeout";
const published = data(
  await bellhop.POST("/v1/topics/{topic}/messages", {
    params: { path: { topic }, query: { id: "4711", ttl: "1h", attempts: 3 } },
    headers: { "Content-Type": "text/plain" },
    body: "EUR 10",
    bodySerializer: (text) => text,
  }),
);
check(published.id === "4711" && published.outcome === "created" && published.state === "ready", `published ${JSON.stringify(published)}`);

const again = await bellhop.POST("/v1/topics/{topic}/messages", {
  params: { path: { topic }, query: { id: "4711" } },
  body: "EUR 10",
  bodySerializer: (text) => text,
});
check(again.error?.status === 409 && again.error.outcome === "refused", `published twice: ${JSON.stringify(again.error)}`);

const replaced = data(
  await bellhop.POST("/v1/topics/{topic}/messages", {
    params: { path: { topic }, query: { id: "4711", if_exists: "replace", ttl: "1h", attempts: 3, late_after: "1h", late: "bury", unique_for: "1h" } },
    headers: { "Content-Type": "text/plain" },
    body: "EUR 10",
    bodySerializer: (text) => text,
  }),
);
check(replaced.outcome === "replaced" && replaced.previous_due === published.due, `replaced ${JSON.stringify(replaced)}`);

const listed = data(
  await bellhop.GET("/v1/topics/{topic}/messages", { params: { path: { topic }, query: { state: "ready", limit: 10 } } }),
);
check(listed.messages.length === 1 && listed.messages[0].attempts === 3, `listed ${JSON.stringify(listed)}`);

const claimed = data(
  await bellhop.POST("/v1/topics/{topic}/claim", { params: { path: { topic }, query: { max: 5, wait: "5s", lease: "30s" } } }),
);
if (typeof claimed === "string") throw new Error("a body came without as=body");
const [message] = claimed.messages;
check(claimed.messages.length === 1 && message.body === "EUR 10" && message.attempt === 1, `claimed ${JSON.stringify(claimed)}`);

check(message.late_ms >= 0, `claimed late: ${JSON.stringify(message)}`);

const snoozed = await bellhop.POST("/v1/topics/{topic}/messages/{id}/nack", {
  params: { path: { topic, id: message.id }, query: { receipt: message.receipt!, delay: "0s", attempt: "keep" } },
});
check(snoozed.response.status === 204, `snoozed ${snoozed.response.status}`);
const reclaimed = data(await bellhop.POST("/v1/topics/{topic}/claim", { params: { path: { topic }, query: { wait: "5s" } } }));
if (typeof reclaimed === "string") throw new Error("a body came without as=body");
check(reclaimed.messages[0].attempt === 1, `claimed again ${JSON.stringify(reclaimed)}`);
message.receipt = reclaimed.messages[0].receipt;

const extended = data(
  await bellhop.POST("/v1/topics/{topic}/messages/{id}/extend", {
    params: { path: { topic, id: message.id }, query: { receipt: message.receipt!, lease: "1m" } },
  }),
);
const acked = await bellhop.POST("/v1/topics/{topic}/messages/{id}/ack", {
  params: { path: { topic, id: message.id }, query: { receipt: extended.receipt } },
});
check(acked.response.status === 204, `acknowledged ${acked.response.status}`);

// These two are in one shard, also in a store of 8: messages of several shards have no common order.
const several = data(
  await bellhop.POST("/v1/claim", { params: { query: { topics: `order.returned,${topic}`, order: "oldest", max: 5 } } }),
);
check(typeof several !== "string" && several.messages.length === 0, `claimed ${JSON.stringify(several)}`);

const done = data(await bellhop.GET("/v1/topics/{topic}/messages/{id}", { params: { path: { topic, id: message.id } } }));
check(done.state === "done" && done.taken_until! > published.due!, `done ${JSON.stringify(done)}`);
await bellhop.POST("/v1/topics/{topic}/messages", { params: { path: { topic } }, body: "once", bodySerializer: (text) => text });
const taken = data(await bellhop.POST("/v1/topics/{topic}/claim", { params: { path: { topic }, query: { ack: "now" } } }));
if (typeof taken === "string") throw new Error("a body came without as=body");
check(taken.messages[0].body === "once" && taken.messages[0].receipt === undefined, `taken ${JSON.stringify(taken)}`);

await bellhop.POST("/v1/topics/{topic}/messages", { params: { path: { topic }, query: { id: "4712" } }, body: "EUR 11", bodySerializer: (text) => text });
const named = data(await bellhop.POST("/v1/topics/{topic}/claim", { params: { path: { topic }, query: { worker: "client-1", wait: "5s" } } }));
if (typeof named === "string") throw new Error("a body came without as=body");
const kept = await bellhop.POST("/v1/topics/{topic}/messages/{id}/ack", {
  params: { path: { topic, id: "4712" }, query: { receipt: named.messages[0].receipt!, keep: "1h" } },
  body: "paid",
  bodySerializer: (text) => text,
});
check(kept.response.status === 204 && kept.data?.left_out === undefined, `kept ${JSON.stringify(kept.data)}`);
const end = data(await bellhop.GET("/v1/topics/{topic}/messages/{id}", { params: { path: { topic, id: "4712" }, query: { wait: "30s" } } }));
check(end.state === "done" && end.result === "paid" && end.worker === "client-1" && Date.parse(end.ended!) >= Date.parse(end.published!), `ended ${JSON.stringify(end)}`);
const unknown = await bellhop.GET("/v1/topics/{topic}/messages/{id}", { params: { path: { topic, id: "unknown" }, query: { wait: "30s" } } });
check(unknown.error?.status === 404, `unknown ${JSON.stringify(unknown.error)}`);
const workers = data(await bellhop.GET("/v1/workers"));
check(Array.isArray(workers.workers), `workers ${JSON.stringify(workers)}`);
const archive = await bellhop.GET("/v1/archive", { params: { query: { topic: "order.>", header: "Tenant:acme", limit: 10 } } });
check(archive.error?.type === "urn:bellhop:no-archive" && archive.data?.messages[0]?.reason === undefined, `archive ${JSON.stringify(archive.error)}`);

const counts = data(await bellhop.GET("/v1/topics/{topic}", { params: { path: { topic } } }));
check(counts.ready === 0 && counts.leased === 0, `counted ${JSON.stringify(counts)}`);

const changed = data(
  await bellhop.PATCH("/v1/topics/{topic}/settings", { params: { path: { topic } }, body: { attempts: 5, lease: "1m", backoff_max: null } }),
);
check(changed.attempts === 5 && changed.lease_ms === 60_000 && changed.own.join() === "attempts,lease", `changed ${JSON.stringify(changed)}`);
const defaults = data(await bellhop.GET("/v1/topics/{topic}/settings", { params: { path: { topic: "*" } } }));
check(defaults.attempts === 10 && defaults.own.length === 0, `the defaults are ${JSON.stringify(defaults)}`);

const stream = await bellhop.GET("/v1/topics/{topic}/broadcasts", { params: { path: { topic: "prices" } }, parseAs: "stream" });
const reader = (stream.data as unknown as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream() as never).getReader();
data(
  await bellhop.POST("/v1/topics/{topic}/broadcasts", {
    params: { path: { topic: "prices" } },
    body: "42",
    bodySerializer: (text) => text,
  }),
);
let text = "";
while (!/data: .*\n\n/.test(text)) text += (await reader.read()).value;
const broadcast: components["schemas"]["Broadcast"] = JSON.parse(/data: (.*)\n/.exec(text)![1]);
check(broadcast.topic === "prices" && broadcast.body === "42", `heard ${text}`);
await reader.cancel();
console.log("all is well");
process.exit(0);
