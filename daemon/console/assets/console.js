// Pages work without this file. It says when a page no longer changes, and draws what a table shows otherwise.
"use strict";

(() => {
  const lost = document.getElementById("lost");

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
