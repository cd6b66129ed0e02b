// Live updates, local times, keys and the theme. Pages work without this file.
(() => {
  "use strict";
  const INTERVAL = 3000;
  const THEMES = ["", "light", "dark"];
  const root = document.documentElement;
  const time = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hour12: false });
  let paused = localStorage.getItem("grete-paused") === "1";
  let loading = false;
  let lastKey = "";

  function localize(within) {
    const today = new Date().toDateString();
    for (const element of within.querySelectorAll("time[datetime]")) {
      const at = new Date(element.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const isShort = element.dataset.style === "time" && at.toDateString() === today;
      element.textContent = (isShort ? time : date).format(at);
    }
  }

  // What a person has opened, selected or typed stays as it is.
  const callbacks = {
    beforeNodeMorphed(old, fresh) {
      if (old.nodeType === 1 && old.tagName === "DETAILS" && old.open !== fresh.open) {
        if (old.open) fresh.setAttribute("open", ""); else fresh.removeAttribute("open");
      }
      return !(old.nodeType === 1 && old.contains(document.activeElement) && /^(INPUT|SELECT|TEXTAREA)$/.test(old.tagName));
    },
  };

  async function refresh() {
    const parts = document.querySelectorAll(".live-part");
    if (paused || loading || document.hidden || !parts.length || !window.Idiomorph) return;
    if (window.getSelection && !window.getSelection().isCollapsed) return;
    loading = true;
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
      if (!response.ok) throw new Error(String(response.status));
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      localize(fresh);
      for (const part of parts) {
        const other = fresh.getElementById(part.id);
        if (other && !paused) Idiomorph.morph(part, other, { callbacks });
      }
      filterRows();
      root.classList.remove("stale");
      document.dispatchEvent(new CustomEvent("grete:refreshed"));
    } catch {
      root.classList.add("stale"); // the page keeps what it has, and says that it is old
    } finally {
      loading = false;
      showLive();
    }
  }

  const liveButton = document.getElementById("live");
  function showLive() {
    const hasParts = document.querySelector(".live-part") !== null;
    liveButton.hidden = !hasParts;
    liveButton.setAttribute("aria-pressed", String(!paused));
    liveButton.querySelector(".live-text").textContent =
      paused ? "Paused" : root.classList.contains("stale") ? "No answer" : "Live";
  }
  function toggleLive() {
    paused = !paused;
    localStorage.setItem("grete-paused", paused ? "1" : "");
    showLive();
    refresh();
  }
  liveButton.addEventListener("click", toggleLive);

  const themeButton = document.getElementById("theme");
  function showTheme() {
    themeButton.textContent = { "": "System", light: "Light", dark: "Dark" }[root.dataset.theme || ""];
  }
  function toggleTheme() {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme || "") + 1) % THEMES.length];
    localStorage.setItem("grete-theme", next);
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    showTheme();
    document.dispatchEvent(new CustomEvent("grete:theme"));
  }
  themeButton.addEventListener("click", toggleTheme);

  // A field above long tables that hides rows without the typed text.
  let filter = null;
  function filterRows() {
    const wanted = filter ? filter.value.trim().toLowerCase() : "";
    for (const row of document.querySelectorAll("main tbody tr")) {
      row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
    }
  }
  if (document.querySelectorAll("main tbody tr").length > 8) {
    filter = document.createElement("input");
    filter.type = "search";
    filter.className = "filter";
    filter.placeholder = "Filter rows";
    filter.setAttribute("aria-label", "Filter rows (key: slash)");
    filter.addEventListener("input", filterRows);
    document.getElementById("main").prepend(filter);
  }

  const help = document.getElementById("help");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (lastKey === "g") {
      const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      lastKey = "";
      if (link) return link.click();
    }
    lastKey = event.key;
    if (event.key === ".") toggleLive();
    else if (event.key === "\\") toggleTheme();
    else if (event.key === "?") help.showModal();
    else if (event.key === "/" && filter) { event.preventDefault(); filter.focus(); }
  });

  // Forms that take a while cannot be sent twice.
  document.addEventListener("submit", (event) => {
    for (const button of event.target.querySelectorAll("button")) {
      if (event.target.method === "post") setTimeout(() => { button.disabled = true; }, 0);
    }
  });
  window.addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("button:disabled")) button.disabled = false;
  });

  const here = document.querySelector("nav a[aria-current=page]");
  if (here && innerWidth <= 760) here.parentElement.scrollLeft = here.offsetLeft - 60;
  localize(document);
  showLive();
  showTheme();
  setInterval(refresh, INTERVAL);
  document.addEventListener("visibilitychange", refresh);
})();
