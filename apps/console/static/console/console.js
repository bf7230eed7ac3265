// The console's script. Every page is complete without it; it adds: live parts, ages that count, the reader's zone, copying.
"use strict";
(() => {
  const zone = new Intl.DateTimeFormat([], { timeZoneName: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const zoneWithDate = new Intl.DateTimeFormat([], {
    timeZoneName: "short", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  });
  const zoneWithMinute = new Intl.DateTimeFormat([], { timeZoneName: "short", hour: "2-digit", minute: "2-digit" });
  const zones = { time: zone, date: zoneWithDate, minute: zoneWithMinute };
  const READY = "/readyz?verbose"; // as in away.html
  const isUtc = new Date().getTimezoneOffset() === 0;

  function inWords(seconds) { // as controlplane.apimachinery.times.in_words
    const whole = Math.max(0, Math.floor(seconds));
    for (const [size, unit, small, smallUnit] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
      if (whole >= size) {
        const count = Math.floor(whole / size), rest = Math.floor((whole % size) / small);
        return count < 10 && rest ? `${count} ${unit} ${rest} ${smallUnit}` : `${count} ${unit}`;
      }
    }
    return `${whole} s`;
  }

  // Times. The clock of the reader may be wrong, so ages count from the age that the server wrote.
  const began = new WeakMap();
  function times(root) {
    for (const one of root.querySelectorAll("time.utc")) {
      if (isUtc || one.nextElementSibling?.classList.contains("zone")) continue;
      const shown = document.createElement("span");
      shown.className = "zone";
      shown.textContent = zones[one.dataset.style].format(new Date(one.dateTime));
      one.after(" ", shown);
    }
    for (const one of root.querySelectorAll("time.age")) {
      if (!began.has(one)) began.set(one, { seconds: Number(one.dataset.seconds), at: performance.now() });
    }
  }
  function count() {
    for (const one of document.querySelectorAll("time.age")) {
      const start = began.get(one);
      if (start) one.textContent = inWords(start.seconds + (performance.now() - start.at) / 1000);
    }
  }

  // Live parts: a stream that all tabs of the browser share (live.js) names a part, which htmx fetches, or contains it.
  const live = document.getElementById("live");
  const page = document.body.dataset.stream;
  const script = document.getElementById("live-script");
  let port = null;
  function renew(name) {
    const url = new URL(location.href);
    url.searchParams.set("part", name);
    const place = `#part-${name}`; // as the source, so that no request for another part takes the place of this one
    htmx.ajax("GET", url.pathname + url.search, { source: place, target: place, swap: "innerHTML" });
  }
  const waiting = new Set(); // parts that have changed while the reader was busy there
  let pressed = null; // what a mouse button or finger is down on; a click on what is replaced meanwhile would be lost
  function busy(place) { // a reader who types, selects or clicks there is not interrupted
    const at = document.activeElement;
    return place.contains(pressed) || place.contains(at) && at.matches("input, textarea, select")
      || place.querySelector("details[open] form, :popover-open, input[type=checkbox]:checked");
  }
  function renewUnlessBusy(place) {
    if (busy(place)) return waiting.add(place.dataset.part);
    waiting.delete(place.dataset.part);
    renew(place.dataset.part);
  }
  function renewWaiting() {
    for (const name of waiting) {
      const place = document.getElementById(`part-${name}`);
      if (place) renewUnlessBusy(place);
      else waiting.delete(name);
    }
  }
  function released() {
    setTimeout(() => { // the click itself comes after this event
      pressed = null;
      renewWaiting();
    });
  }
  function keyOf(one) { // what an element is known by after its part was replaced
    if (one.localName === "summary") return one.parentElement.id;
    if (one.href) return `${one.href} ${one.text}`;
    return one.id || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.textContent;
  }
  function alike(place, one) {
    const key = keyOf(one);
    return [...place.querySelectorAll(one.localName)].filter((other) => keyOf(other) === key);
  }
  function setValue(field, value) { // a list may no longer have the value
    const before = field.value;
    field.value = value;
    if (field.value !== value) field.value = before;
  }
  function keep(place) { // returns what gives back, after the part was replaced, what the reader has opened and chosen in it
    const at = document.activeElement, number = place.contains(at) ? alike(place, at).indexOf(at) : -1;
    const open = [...place.querySelectorAll("details[id][open]")].map((one) => one.id);
    const filters = [...place.querySelectorAll("form.filters :is(input, select)[id]")].map(({ id, value }) => [id, value]);
    const scrolled = [...place.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    return () => {
      for (const one of place.querySelectorAll("details[id]")) one.open = open.includes(one.id);
      for (const [id, value] of filters) if (document.getElementById(id)) setValue(document.getElementById(id), value);
      place.querySelectorAll(".scroll").forEach((one, index) => { one.scrollLeft = scrolled[index] ?? 0; });
      if (number >= 0 && document.activeElement === document.body) alike(place, at)[number]?.focus({ preventScroll: true });
    };
  }
  function show(state) {
    if (!live) return;
    live.hidden = false;
    live.className = `live ${state ? "on" : "off"}`;
    live.textContent = state ? "live" : "not live";
  }
  function old(id, why) { // the figures stay, and say how old they are; without a reason they are current again
    const shown = document.getElementById(id);
    if (!why) return shown?.remove();
    if (shown) return;
    const notice = document.createElement("p");
    notice.id = id;
    notice.className = "notice error";
    notice.setAttribute("role", "alert");
    const at = new Date().toISOString().slice(11, 19);
    notice.append(`✕ ${why} since about ${at} UTC. This page shows nothing newer. Check it with `);
    notice.append(Object.assign(document.createElement("a"), { href: READY, textContent: READY }), ".");
    document.getElementById("main").prepend(notice);
  }
  function renewAll() {
    for (const place of document.querySelectorAll("[data-part]")) renewUnlessBusy(place);
  }
  function received({ data }) {
    if (data.login) return location.reload(); // the page says what the reader may do now
    if ("live" in data) show(data.live);
    if ("kept" in document.body.dataset && (data.opened || data.away === false)) return location.reload(); // it is back
    if (data.missed) renewAll();
    if ("away" in data) old("away", data.away && "The database does not answer");
    if ("silent" in data) old("silent", data.silent && "Lifeboat or its database has not answered");
    const place = document.getElementById(`part-${data.topic ?? data.part}`);
    if (!place) return;
    if (data.topic || busy(place)) return renewUnlessBusy(place);
    waiting.delete(data.part);
    const giveBack = keep(place);
    htmx.swap(place, data.html, { swapStyle: "innerHTML" });
    giveBack();
  }
  function answered(event) { // what htmx has fetched is about to replace a part
    const place = event.detail.target;
    if (!event.detail.shouldSwap || !place.matches("[data-part]")) return;
    if (busy(place)) {
      event.detail.shouldSwap = false;
      waiting.add(place.dataset.part);
      return;
    }
    place.addEventListener("htmx:afterSwap", keep(place), { once: true });
  }
  function alone() { // this browser has no shared workers, or refuses this one
    const channel = new MessageChannel();
    window.lifeboatLive.join(channel.port1);
    use(channel.port2);
  }
  function use(found) {
    port = found;
    port.onmessage = received;
    port.postMessage({ show: document.hidden ? "" : page });
  }
  function open() {
    if (!page || !window.EventSource) return;
    if (port) return port.postMessage({ show: document.hidden ? "" : page });
    try {
      const worker = new SharedWorker(script.src, { name: "lifeboat-1" }); // another number: another kind of messages
      worker.addEventListener("error", alone);
      use(worker.port);
    } catch {
      alone();
    }
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) renewAll();
    if (port) open();
  });
  window.addEventListener("pagehide", () => port?.postMessage({ show: "" }));
  window.addEventListener("pageshow", () => { if (port) open(); });

  document.addEventListener("pointerdown", (event) => {
    if (event.isPrimary && event.button === 0) pressed = event.target;
  }, true);
  for (const name of ["pointerup", "pointercancel", "contextmenu", "dragend"]) document.addEventListener(name, released, true);
  window.addEventListener("blur", released);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "copied";
  });

  function ready() {
    times(document);
    setInterval(count, 1000);
    setInterval(renewWaiting, 1000);
    for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
    document.body.addEventListener("htmx:beforeSwap", answered);
    document.body.addEventListener("htmx:afterSwap", (event) => times(event.detail.target ?? document));
    open();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready);
  else ready();
})();
