// The stream of a browser: one connection, which names all pages that its visible tabs show. This script runs in a shared
// worker that all tabs share. In a browser without shared workers each tab runs it itself, with a connection of its own.
"use strict";
(() => {
  const AGAIN_MS = [1000, 2000, 5000, 15000]; // between two tries after the server has refused the stream
  const SILENT_MS = 20000; // the server sends an event every five seconds; without any, it or its database hangs
  const tabs = new Map(); // port of a tab → URL of its page
  let source = null; // the stream that is open, or opening
  let next = null; // its successor, which names other pages; it opens before `source` closes, so that no event is lost
  let isOpen = false;
  let refusals = 0;
  let heardAt = 0; // when the last event came
  let isSilent = false;
  let timer = 0;

  function tell(message, page) { // without a page: all tabs
    for (const [port, shown] of tabs) if (page === undefined || shown === page) port.postMessage(message);
  }
  function address() {
    const pages = [...new Set(tabs.values())].sort();
    return pages.length ? `/stream?${new URLSearchParams(pages.map((page) => ["page", page]))}` : "";
  }
  function connect() {
    clearTimeout(timer);
    const url = address();
    if (url === (next ?? source)?.wanted) return;
    next?.close();
    next = null;
    if (!url) {
      source?.close();
      source = null;
      isOpen = false;
      return;
    }
    const made = new EventSource(url);
    made.wanted = url;
    if (isOpen) next = made;
    else {
      source?.close();
      source = made;
    }
    made.addEventListener("open", () => opened(made));
    made.addEventListener("error", () => failed(made));
    made.addEventListener("alive", heard);
    made.addEventListener("topic", (event) => pass(event, (sent) => ({ topic: sent.name })));
    made.addEventListener("part", (event) => pass(event, (sent) => ({ part: sent.name, html: sent.html })));
    made.addEventListener("away", (event) => pass(event, () => ({ away: true })));
    made.addEventListener("back", (event) => pass(event, () => ({ away: false })));
    made.addEventListener("login", (event) => pass(event, () => ({ login: true })));
  }
  function heard() {
    heardAt = performance.now();
    if (isSilent) tell({ live: isOpen, silent: false });
    isSilent = false;
  }
  function listen() {
    if (isSilent || !isOpen || performance.now() - heardAt < SILENT_MS) return;
    isSilent = true;
    tell({ live: false, silent: true });
  }
  function pass(event, message) {
    heard();
    const sent = JSON.parse(event.data);
    tell(message(sent), sent.page);
  }
  function opened(made) {
    if (made === next) {
      source.close();
      source = next;
      next = null;
    }
    const missed = made.failed; // what happened while the stream was away is unknown
    made.failed = false;
    isOpen = true;
    heard();
    refusals = 0;
    tell({ live: true, opened: true, missed });
  }
  function failed(made) {
    made.failed = true;
    if (made === source) {
      isOpen = false;
      tell({ live: false });
    }
    if (made.readyState === EventSource.CLOSED) refused(made); // otherwise the browser connects again by itself
  }
  async function refused(made) { // the server is there, and answers something else: ask why, then try again
    if (made === next) next = null;
    if (made === source) source = null;
    const stop = new AbortController();
    const answer = await fetch(made.wanted, { signal: stop.signal, redirect: "manual" }).catch(() => null);
    stop.abort();
    if (answer?.status === 401 || answer?.status === 403) return tell({ login: true });
    timer = setTimeout(() => {
      connect();
      const opening = next ?? source;
      if (opening) opening.failed = true; // so that the tabs renew what they show
    }, AGAIN_MS[Math.min(refusals++, AGAIN_MS.length - 1)]);
  }
  function join(port) {
    port.onmessage = ({ data }) => {
      if (data.show) tabs.set(port, data.show);
      else tabs.delete(port);
      connect();
      if (data.show && isOpen) port.postMessage({ live: !isSilent, silent: isSilent });
    };
  }

  setInterval(listen, 1000);
  if ("onconnect" in self) self.onconnect = (event) => join(event.ports[0]);
  else self.lifeboatLive = { join };
})();
