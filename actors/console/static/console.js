// What a page does beyond HTML: it lives, is searched as one types, obeys keys, and draws curves.
// Everything but the curves works without.

import { charts } from "./charts.js";

const $ = (selector, root = document) => root.querySelector(selector);

// --- regions ---------------------------------------------------------------------------------------------------------

// Where the reader was in a region that is replaced: which row or link had the focus.
function place() {
  const it = document.activeElement;
  if (!it || it === document.body) return null;
  const region = it.closest(".region");
  return region && { region: region.id, href: it.getAttribute("href"), name: it.getAttribute("name") };
}

function back(to) {
  if (!to || document.activeElement !== document.body) return;
  const region = document.getElementById(to.region);
  const all = region ? [...region.querySelectorAll("a[href], input, select, button")] : [];
  const it = all.find((each) => (to.href && each.getAttribute("href") === to.href) || (to.name && each.name === to.name));
  if (it) it.focus({ preventScroll: true });
}

function show(regions) {
  const was = place();
  for (const [name, html] of Object.entries(regions)) {
    const region = document.getElementById(name);
    if (!region || region.contains($("input[data-search]:focus"))) continue;
    if (region.querySelector("[data-chart]")) continue; // curves take points instead
    const scrolled = [...region.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    region.innerHTML = html;
    region.querySelectorAll(".scroll").forEach((each, at) => { each.scrollLeft = scrolled[at] || 0; });
  }
  back(was);
}

// --- it lives --------------------------------------------------------------------------------------------------------

const pulse = $("#pulse");
let stream = null;
let looked = Number(document.body.dataset.look || 0);
let heard = Date.now();

function say(state, text) {
  if (!pulse) return;
  pulse.className = state;
  const words = $("#pulse-text");
  if (words.textContent !== text) words.textContent = text;
}

function listen() {
  const address = document.body.dataset.live;
  if (!address) return;
  stream?.close();
  const mark = address.includes("?") ? "&" : "?";
  stream = new EventSource(`${address}${mark}look=${looked}`);
  stream.addEventListener("look", (event) => {
    const found = JSON.parse(event.data);
    looked = found.look;
    heard = Date.now();
    show(found.regions);
    if (found.series) charts.add(found.series);
    say("on", "live");
    document.body.dataset.looks = Number(document.body.dataset.looks || 0) + 1;
  });
  stream.addEventListener("problem", (event) => say("off", JSON.parse(event.data).text));
  stream.addEventListener("over", () => location.reload());
  stream.onerror = () => {
    say("off", "no connection");
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
}

// A page that nobody sees asks for nothing.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stream?.close();
  else listen();
});
setInterval(() => {
  const age = Math.round((Date.now() - heard) / 1000);
  if (pulse?.className === "on" && age > 12) say("on", `${age} s old`);
}, 1000);

// --- search ----------------------------------------------------------------------------------------------------------

let typing = 0;

async function look(address) {
  const answer = await fetch(address, { headers: { "X-Regions": "1" } });
  if (!answer.ok || answer.redirected) { location.assign(address); return; }
  const found = await answer.json();
  history.replaceState(null, "", address);
  document.body.dataset.live = `/live${address}`;
  looked = found.look;
  const { tools, ...others } = found.regions;
  show(others);
  const fresh = document.createElement("div");
  fresh.innerHTML = tools || "";
  const [old, made] = [$("#tools .choices"), $(".choices", fresh)];
  if (old && made) old.replaceWith(made);
  listen();
}

document.addEventListener("input", (event) => {
  const field = event.target;
  if (!field.matches("input[data-search]")) return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    const query = new URLSearchParams(location.search);
    query.delete("from");
    if (field.value) query.set("q", field.value); else query.delete("q");
    const text = query.toString();
    look(location.pathname + (text ? `?${text}` : ""));
  }, 120);
});

// --- keys ------------------------------------------------------------------------------------------------------------

const help = $("#help");
const menu = { c: "cluster", g: "groups", t: "topics" };
let went = 0;

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("coterie-theme", root.dataset.theme); } catch { /* it lasts for this page */ }
  charts.draw();
}

const keys = {
  "/": () => $("input[data-search]")?.focus(),
  j: () => step(1),
  k: () => step(-1),
  t: theme,
  "?": () => help?.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inField = event.target.matches("input:not([type=radio]):not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && inField) { event.target.blur(); return; }
  if (inField || help?.open) return;
  if (Date.now() - went < 1200 && menu[event.key]) {
    $(`[data-menu=${menu[event.key]}]`)?.click();
    event.preventDefault();
    return;
  }
  if (event.key === "g") { went = Date.now(); return; }
  const act = keys[event.key];
  if (act) { event.preventDefault(); act(); }
});
$("#theme")?.addEventListener("click", theme);
$("#keys")?.addEventListener("click", () => help.showModal());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.draw());

charts.draw();
if (!document.hidden) listen();
