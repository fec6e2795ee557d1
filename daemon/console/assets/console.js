// Pages work without this file. It says when a page no longer changes, and draws what a table shows otherwise.
"use strict";

(() => {
  const lost = Object.assign(document.createElement("p"), { id: "lost", className: "fault", role: "alert", hidden: true });
  document.getElementById("main").prepend(lost);

  // The daemon is gone, or restarts: what is shown grows old, and must not look as if it were true.
  document.addEventListener("htmx:sse:error", () => {
    if (!lost.hidden) return;
    lost.textContent = `The daemon does not answer. This page shows what was at ${new Date().toISOString().slice(11, 19)} UTC, and tries again by itself.`;
    lost.hidden = false;
  });
  document.addEventListener("htmx:sse:after:connection", () => {
    lost.hidden = true;
    if (document.hidden) setTimeout(() => document.dispatchEvent(new Event("visibilitychange"))); // opened in the background: it pauses at once
  });

  // The extension repeats all connections but the first.
  const live = document.getElementById("live");
  const address = live?.getAttribute("hx-sse:connect");
  let ended = !address;
  document.addEventListener("htmx:sse:close", (e) => { ended ||= e.detail.reason === "message"; });
  setInterval(() => {
    if (!ended && !document.hidden && !live._htmx?.sse) htmx.ajax("GET", address, { source: live });
  }, 5000);
  // The river: what was delivered to the left of now, and how late, and what falls due to the right.
  const river = { plot: null, text: "", data: null };
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const late = (ms) => (ms < 1000 ? `${+ms.toPrecision(2)} ms` : `${+(ms / 1000).toPrecision(2)} s`);
  const clock = (t) => new Date(t * 1000).toISOString().slice(0, 16).replace("T", " ");

  function told(i) {
    const d = river.data;
    const parts = [];
    if (d.delivered[i] != null) parts.push(`${d.delivered[i].toLocaleString("en")} delivered`);
    if (d.p99[i] != null) parts.push(`half of them within ${late(d.p50[i])}, 99 % within ${late(d.p99[i])}`);
    if (d.due[i] != null) parts.push(`${d.due[i].toLocaleString("en")} fall due`);
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
    ctx.textAlign = "left";
    ctx.fillText(" now", x, u.bbox.top);
    ctx.restore();
  }

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
      width: box.clientWidth, height: 260, legend: { show: false }, tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "UTC"),
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { range: (_u, min, max) => [min, max + river.data.step] }, y: { range: (_u, _min, max) => [0, Math.max(max * 1.15, 4)] }, late: { distr: 3, range: (_u, min, max) => [Math.min(min || 0.1, 0.1), Math.max(max || 10, 10)] } },
      series: [{}, bar("delivered", "--ok"), bar("falls due", "--due"), line("p50", [4, 4]), line("p99")],
      axes: [{ ...axis, values: (_u, all) => all.map(time) }, { ...axis, size: 60, values: (_u, all) => all.map((v) => (Number.isInteger(v) ? v.toLocaleString("en") : "")) },
        { ...axis, scale: "late", side: 1, size: 60, show: hasLate, grid: { show: false }, values: (_u, all) => all.map((v) => (v == null || Math.log10(v) % 1 ? "" : late(v))) }],
      hooks: { draw: [now], setCursor: [(u) => tell(u.cursor.idx)] },
    };
  }

  function draw(anew) {
    const box = document.getElementById("river");
    const text = document.getElementById("river-data")?.dataset.river;
    if (!box || !text || !window.uPlot || (!anew && text === river.text && river.plot?.root.isConnected)) return;
    const before = river.data;
    river.text = text;
    const d = river.data = JSON.parse(text);
    const some = (all) => all.map((n) => n || null); // a bar of nothing is none
    const columns = [d.at, some(d.delivered), some(d.due), d.p50, d.p99];
    const same = before?.step === d.step && river.plot?.root.isConnected && before.p99.some((v) => v != null) === d.p99.some((v) => v != null);
    if (same && !anew) {
      river.plot.setData(columns);
      tell(river.plot.cursor.idx);
      return;
    }
    river.plot?.destroy();
    box.replaceChildren();
    river.plot = new uPlot(options(box), columns, box);
    tell();
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", "What was delivered and what falls due, as in the table behind the plot");
  }

  if (live) {
    draw();
    new MutationObserver(() => draw()).observe(live, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-river"] });
    dark.addEventListener("change", () => draw(true));
    addEventListener("resize", () => { if (river.plot?.root.isConnected) river.plot.setSize({ width: document.getElementById("river").clientWidth, height: 260 }); });
  }
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
