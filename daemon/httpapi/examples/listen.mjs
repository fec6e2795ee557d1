// Prints the broadcasts of the topics that begin with "prices.". After a lost
// connection it resumes where it was, and misses none that is still kept.
//
//   node listen.mjs
//
// It needs Node 18 or newer and nothing else. A browser has EventSource for this:
//
//   const events = new EventSource(url);
//   events.addEventListener("broadcast", (e) => handle(JSON.parse(e.data)));
const base = process.env.BELLHOP_URL ?? "http://127.0.0.1:8420";
const url = `${base}/v1/topics/prices.%3E/broadcasts`;
let last; // the id of the last event: keep it in a file to resume after a restart

function handle(name, data) {
  if (name === "gap") console.log(`missed some of ${data.topic}`);
  else console.log(`${data.topic}: ${data.body ?? Buffer.from(data.body_base64, "base64")}`); // which is not UTF-8
}

// Reads one event: lines of FIELD: VALUE.
function dispatch(text) {
  const fields = Object.fromEntries(text.split("\n").map((line) => line.split(/: ?(.*)/s)));
  if (fields.data) handle(fields.event, JSON.parse(fields.data));
  if (fields.id) last = fields.id;
}

async function listen() {
  const response = await fetch(url, { headers: last ? { "Last-Event-ID": last } : {} });
  if (!response.ok) throw new Error((await response.json()).detail);
  console.log("listening");
  let rest = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + piece).split("\n\n");
    rest = events.pop();
    events.forEach(dispatch);
  }
}

for (;;) {
  await listen().catch((err) => console.error(`${err.cause?.code ?? err.message}; retrying`));
  await new Promise((again) => setTimeout(again, 1000));
}
