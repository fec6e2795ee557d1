// Pages work without this file. It says when a page no longer changes, and draws what a table shows otherwise.
"use strict";

(() => {
  // What is shown grows old when the stream is lost, and must not look as if it were true.
  const lost = Object.assign(document.createElement("p"), { id: "lost", className: "fault", role: "alert", hidden: true });
  document.getElementById("main").prepend(lost);

  const live = document.getElementById("live");
  const address = live?.getAttribute("hx-sse:connect");
  let ended = !address;
  let heard = Date.now();
  let seen = heard; // when what is shown was so
  let fault = false; // the daemon says why it does not know what is so now
  let shown = heard; // since when the page is in the foreground
  let gaveWay = false; // the stream to another window

  // tell says why nothing is heard: the status of an answer, or there is none.
  function tell(status) {
    if (ended || gaveWay || status === 503 && "anew" in live.dataset) return; // the page says so
    ended = status === 401;
    const why = status === 401 ? "You are logged out."
      : status === 429 ? `Too many pages are open: a token may have ${live.dataset.most} at a time. Close others.`
        : status ? `The daemon, or a proxy before it, answers with status ${status}.` : "The daemon does not answer.";
    say(why, ended ? "." : ", and tries again by itself.");
    if (ended) lost.append(Object.assign(document.createElement("a"), { href: `login?next=${encodeURIComponent(location.href.slice(document.baseURI.length))}`, textContent: "Log in" }));
  }

  function say(why, end) {
    const text = `${why} This page shows what was at ${new Date(seen).toISOString().slice(11, 19)} UTC${end} `;
    if (lost.firstChild?.data === text && !lost.hidden) return; // it is read aloud each time it changes
    lost.replaceChildren(text);
    lost.hidden = false;
  }
  document.addEventListener("htmx:sse:error", (e) => tell(e.detail.status));
  document.addEventListener("htmx:response:error", (e) => tell(e.detail.ctx.response.status)); // of the first connection
  document.addEventListener("htmx:error", () => tell());
  document.addEventListener("htmx:sse:before:connection", (e) => { e.detail.connection.cancelled = ended || gaveWay; });
  document.addEventListener("htmx:sse:after:connection", () => {
    if (gaveWay) return void setTimeout(() => live._htmx?.sse?.reader?.cancel()); // while it connected
    heard = Date.now();
    lost.hidden = !fault;
    if (document.hidden) setTimeout(() => document.dispatchEvent(new Event("visibilitychange"))); // opened in the background: it pauses at once
  });
  live?.addEventListener("fault", ({ detail }) => {
    if (!live.querySelector(":scope > :not(.fault)")) return void (live.innerHTML = detail.data); // there is nothing to keep
    const box = Object.assign(document.createElement("template"), { innerHTML: detail.data }).content;
    fault = true;
    say(["h2", "p"].map((part) => box.querySelector(part).textContent.replace(/\.$/, "")).join(": ") + ".", ", and tries again by itself.");
  });
  document.addEventListener("htmx:sse:after:message", (e) => {
    heard = Date.now();
    if (!e.detail.message.event) fault = !(lost.hidden = true);
    if (!fault) seen = heard;
    if ("anew" in live.dataset && live.querySelector(":scope > :not(.fault)")) location.reload(); // to what stands around it
  });
  document.addEventListener("htmx:sse:close", (e) => { ended ||= e.detail.reason === "message"; });
  document.addEventListener("visibilitychange", () => { shown = Date.now(); });

  const connect = () => htmx.ajax("GET", address, { source: live, timeout: htmx.config.sse.connectTimeout });

  // Over HTTP/1 a browser opens six connections to a host, and whatever else it asks for waits without a word. So its windows
  // have four streams at most: one gives its stream up when as many others took theirs later.
  const most = 4, forgotten = 15000;
  const windows = new BroadcastChannel("bellhop");
  const own = crypto.getRandomValues(new Uint32Array(2)).join();
  const later = new Map(); // which windows took their streams later, and when each said so last
  let took = 0; // when this window took its stream; 0: it has none

  const tellOthers = () => windows.postMessage({ own, took });
  windows.addEventListener("message", ({ data }) => {
    if (data.took > took) later.set(data.own, Date.now());
    else later.delete(data.own);
    if (!took || ended || [...later.values()].filter((at) => Date.now() - at < forgotten).length < most) return;
    leave();
    say("Other windows have the few connections that a browser opens to one host.", ", and goes on when you return to it.");
    gaveWay = true;
    live._htmx?.sse?.reader?.cancel();
  });

  function take() {
    if (ended || document.hidden || !performance.getEntriesByType("navigation")[0]?.nextHopProtocol.startsWith("http/1")) return;
    took = Date.now();
    later.clear();
    tellOthers();
    if (!gaveWay) return;
    gaveWay = false;
    if (!live._htmx?.sse) connect();
  }

  function leave() {
    took = 0;
    tellOthers();
  }

  take();
  addEventListener("focus", take);
  addEventListener("pagehide", leave);
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : take()));

  setInterval(() => {
    if (ended || gaveWay || document.hidden) return;
    if (took) tellOthers(); // a window that crashed says no more
    const stream = live._htmx?.sse;
    if (!stream) connect(); // the extension repeats all connections but the first
    else if (stream.reader && Date.now() - Math.max(heard, shown) > live.dataset.silence * 1000) { // it was cut, and nobody said so
      tell();
      stream.reader.cancel();
    }
  }, 5000);
})();

(() => {
  // The river: what happened to the left of now, and how late, and what falls due to the right.
  const live = document.getElementById("live");
  const river = { plot: null, text: "", data: null };
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const late = (ms) => (ms < 1000 ? `${+ms.toPrecision(2)} ms` : `${+(ms / 1000).toPrecision(2)} s`);
  const clock = (t) => new Date(t * 1000).toISOString().slice(0, 16).replace("T", " ");

  function told(i) {
    const d = river.data;
    const parts = [];
    if (d.past[i] != null) parts.push(`${d.past[i].toLocaleString("en")} ${d.word}`);
    if (d.p99[i] != null) parts.push(`half of them within ${late(d.p50[i])}, 99 % within ${late(d.p99[i])}`);
    if (d.due[i] != null) parts.push(`${d.due[i].toLocaleString("en")} fall due`);
    if (d.recur[i]) parts.push(`schedules add ${d.recur[i].toLocaleString("en")}`);
    return `${clock(d.at[i])} UTC, within ${d.unit}: ${parts.join("; ") || "nothing is known"}`;
  }

  // tell says in words what the plot shows at a place, or now.
  function tell(i) {
    const d = river.data;
    document.getElementById("river-at").textContent = told(i ?? Math.max(0, d.at.findLastIndex((t) => t <= d.now)));
  }

  // now marks the present in the plot.
  function now(u) {
    const { ctx } = u;
    const x = Math.round(u.valToPos(river.data.now, "x", true));
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = u.axes[0].stroke();
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, u.bbox.top);
    ctx.lineTo(x, u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.font = `${13 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    const ends = x > u.bbox.left + 0.9 * u.bbox.width; // nothing is to come: there is no room
    ctx.textAlign = ends ? "right" : "left";
    ctx.fillText(ends ? "now " : " now", x, u.bbox.top);
    ctx.restore();
  }

  const widthOf = (box) => box.parentElement.clientWidth; // an empty box has none

  function options(box) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const bars = uPlot.paths.bars({ size: [0.85, 40], align: 1 });
    const bar = (label, name) => ({ label, stroke: colour(name), fill: colour(name), paths: bars, points: { show: false } });
    const line = (label, dash) => ({ label, scale: "late", stroke: colour("--late"), width: 2, dash, points: { show: true, size: 5, fill: colour("--late") } });
    const axis = { stroke: () => colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const time = (t) => {
      const text = new Date(t * 1000).toISOString();
      return river.data.step < 3600 ? text.slice(11, 16) : river.data.step < 86400 && t % 86400 ? text.slice(11, 16) : text.slice(5, 10);
    };
    const hasLate = river.data.p99.some((v) => v != null);
    return {
      width: widthOf(box), height: 260, legend: { show: false }, tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "UTC"),
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { range: (_u, min, max) => [min, max + river.data.step] }, y: { range: (_u, _min, max) => [0, Math.max(max * 1.15, 4)] }, late: { distr: 3, range: (_u, min, max) => uPlot.rangeLog(Math.min(min || 0.1, 0.1), Math.max(max || 10, 10), 10, true) } }, // powers of ten: from 0.095 on the ticks would never end
      series: [{}, bar(river.data.word, `--${river.data.class || "ok"}`), { ...bar("with schedules", "--due"), fill: null }, bar("falls due", "--due"), line("p50", [4, 4]), line("p99")],
      axes: [{ ...axis, values: (_u, all) => all.map(time) }, { ...axis, size: 60, values: (_u, all) => all.map((v) => (Number.isInteger(v) ? v.toLocaleString("en") : "")) },
        { ...axis, scale: "late", side: 1, size: 60, show: hasLate, grid: { show: false }, values: (_u, all) => all.map((v) => (v == null || Math.log10(v) % 1 ? "" : late(v))) }],
      hooks: { draw: [now], setCursor: [(u) => tell(u.cursor.idx)] },
    };
  }

  function draw(anew) {
    const box = document.getElementById("river");
    const text = document.getElementById("river-data")?.dataset.river;
    if (!box || !text || !window.uPlot || (!anew && text === river.text && (!river.plot || river.plot.root.isConnected))) return;
    const before = river.data;
    river.text = text;
    const d = river.data = JSON.parse(text);
    const some = (all) => all.map((n) => n || null); // a bar of nothing is none
    const recurs = d.recur.map((n, i) => (n ? n + d.due[i] : null)); // drawn behind what falls due
    const columns = [d.at, some(d.past), recurs, some(d.due), d.p50, d.p99];
    const same = before?.step === d.step && before.word === d.word && river.plot?.root.isConnected && before.p99.some((v) => v != null) === d.p99.some((v) => v != null);
    if (same && !anew) {
      river.plot.setData(columns);
      tell(river.plot.cursor.idx);
      return;
    }
    river.plot?.destroy();
    river.plot = null;
    box.replaceChildren();
    try {
      river.plot = new uPlot(options(box), columns, box);
    } catch (fault) { // an empty box shows the table
      console.error(fault);
      box.replaceChildren();
      return;
    }
    tell();
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${box.parentElement.querySelector("h2").textContent}, as in the table behind the plot`);
  }

  draw();
  if (live) new MutationObserver(() => draw()).observe(live, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-river"] });
  dark.addEventListener("change", () => draw(true));
  addEventListener("resize", () => { if (river.plot?.root.isConnected) river.plot.setSize({ width: widthOf(document.getElementById("river")), height: 260 }); });
})();

(() => {
  // A button that ticks all boxes of a name needs this file.
  for (const button of document.querySelectorAll("button[data-tick]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const boxes = [...document.querySelectorAll(`input[type=checkbox][name="${button.dataset.tick}"]`)];
      const tick = boxes.some((box) => !box.checked);
      for (const box of boxes) box.checked = tick;
    });
  }
})();

(() => {
  // A button that copies what an element shows needs this file.
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const shown = document.querySelector(button.dataset.copy);
      getSelection().selectAllChildren(shown);
      const copied = navigator.clipboard ? await navigator.clipboard.writeText(shown.textContent).then(() => true, () => document.execCommand("copy")) : document.execCommand("copy"); // over plain HTTP there is no clipboard
      button.textContent = copied ? "Copied" : "Press Ctrl-C";
    });
  }
})();

(() => {
  // An act on very many messages goes on by itself, a page at a time, until it is stopped.
  const form = document.querySelector("form[data-goes-on]");
  const stopped = sessionStorage.getItem("stop");
  sessionStorage.removeItem("stop");
  if (!form || stopped) return;
  const stop = form.querySelector("[data-stop]");
  stop.hidden = false;
  stop.addEventListener("click", () => {
    sessionStorage.setItem("stop", "1");
    stop.disabled = true;
    stop.textContent = "Stops after this page";
  });
  form.requestSubmit();
})();

(() => {
  // The box of find completes terms, states and topics as one types.
  const box = document.querySelector("input[data-offers]");
  if (!box) return;
  const known = JSON.parse(box.dataset.offers);
  const terms = known[""].map((o) => o.text);
  const make = (name, attributes) => {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    return e;
  };
  const list = make("ul", { id: "offers", class: "offers", role: "listbox", "aria-label": "Completions" });
  const told = make("span", { class: "away", role: "status" });
  list.hidden = true;
  for (const [key, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" })) box.setAttribute(key, value);
  box.closest(".asks").append(list, told);
  let place = null; // of what is offered in the text: from, to and end, what stands behind a completion
  let chosen = -1;
  let asks = null; // the question for topics that is under way

  // look returns what is completed at the cursor: the beginning, where it stands, and what there is.
  function look() {
    const text = box.value, at = box.selectionStart;
    const before = text.slice(0, at);
    if (at !== box.selectionEnd || before.replace(/"(\\.|[^"\\])*"/g, "").includes('"')) return null; // within quotes it is any text
    const word = /[^\s"]*$/.exec(before)[0];
    const to = at + /^[^\s",]*/.exec(text.slice(at))[0].length;
    const term = terms.find((t) => word.startsWith(t));
    if (!term) {
      const given = (t) => t !== "header." && ` ${text}`.includes(` ${t}`);
      return { begin: word, from: at - word.length, to, end: "", all: known[""].filter((o) => !given(o.text)) };
    }
    const values = word.slice(term.length).split(",");
    const begin = values.pop();
    const end = text.slice(to).trim() || text[to] === "," ? "" : " ";
    return { begin, from: at - begin.length, to, end, topics: term === "topic:", all: (known[term] ?? []).filter((o) => !values.includes(o.text)), values };
  }

  function close() {
    asks?.abort();
    told.textContent = "";
    list.hidden = true;
    chosen = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  }

  function show(p, offers) {
    close();
    place = p;
    const some = offers.filter((o) => o.text.startsWith(p.begin) && o.text !== p.begin);
    if (!some.length) return;
    told.textContent = `${some.length} ${some.length === 1 ? "completion" : "completions"}`;
    list.replaceChildren(...some.map((o, i) => {
      const item = make("li", { id: `offer-${i}`, role: "option", "aria-selected": "false" });
      item.textContent = o.text;
      item.dataset.text = o.text;
      if (o.what) item.append(Object.assign(document.createElement("span"), { textContent: o.what }));
      return item;
    }));
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
  }

  async function offer() {
    const p = look();
    if (!p) return close();
    if (!p.topics) return show(p, p.all);
    close();
    const mine = asks = new AbortController();
    await new Promise((done) => setTimeout(done, 150)); // one may type on
    if (mine.signal.aborted) return;
    try {
      const answer = await fetch(`${box.dataset.topics}?${new URLSearchParams({ begin: p.begin })}`, { signal: mine.signal });
      const names = answer.ok ? await answer.json() : [];
      if (!mine.signal.aborted) show(p, names.filter((n) => !p.values.includes(n)).map((text) => ({ text })));
    } catch { /* the daemon is away: nothing is offered */ }
  }

  function choose(i) {
    list.children[chosen]?.setAttribute("aria-selected", "false");
    chosen = i;
    const item = list.children[i];
    item?.setAttribute("aria-selected", "true");
    if (item) box.setAttribute("aria-activedescendant", item.id);
    else box.removeAttribute("aria-activedescendant");
  }

  function take(item) {
    box.setRangeText(item.dataset.text + place.end, place.from, place.to, "end");
    offer();
  }

  box.addEventListener("input", offer);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (e) => {
    if (e.isComposing || e.ctrlKey || e.altKey || e.metaKey || e.shiftKey) return;
    const n = list.hidden ? 0 : list.children.length;
    if (e.key === "ArrowDown" && !n) offer();
    else if (e.key === "ArrowDown") choose(chosen + 1 < n ? chosen + 1 : -1);
    else if (e.key === "ArrowUp" && n) choose(chosen < 0 ? n - 1 : chosen - 1);
    else if (e.key === "Escape" && n) close();
    else if ((e.key === "Enter" || e.key === "Tab") && chosen >= 0) take(list.children[chosen]);
    else return;
    e.preventDefault();
  });
  list.addEventListener("mousedown", (e) => e.preventDefault()); // the cursor stays in the box
  list.addEventListener("click", (e) => {
    const item = e.target.closest("li");
    if (item) take(item);
  });
})();

(() => {
  // What a form changes is said as the command of a shell that does the same.
  const shown = document.querySelector("code[data-command]");
  if (!shown) return;
  const form = shown.closest("form"), none = shown.textContent;
  const seen = new URLSearchParams(form.elements.seen.value);
  const word = (text) => (/^[\w.,:=+@%/-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const tell = () => {
    const changed = [...form.elements].filter((e) => e.name.startsWith("set.")).map((e) => [e.name.slice(4), e.value.trim()]).filter(([name, value]) => value !== (seen.get(name) ?? ""));
    shown.textContent = changed.length ? `${shown.dataset.command} ${changed.map(([name, value]) => `${name}=${word(value)}`).join(" ")}` : none;
  };
  form.addEventListener("input", tell);
  tell(); // a form that was refused has changes
})();
