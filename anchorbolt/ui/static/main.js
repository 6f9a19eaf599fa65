// Asks the server again and again, shows the view that the address names, and says when nobody answers.

import { perform } from "./actions.js";
import { h, link, seconds, time } from "./dom.js";
import { components } from "./views/components.js";
import { configuration } from "./views/configuration.js";
import { failures } from "./views/failures.js";
import { overview } from "./views/overview.js";
import { state } from "./views/state.js";
import { waves } from "./views/waves.js";

const VIEWS = { overview, waves, components, state, failures, configuration };
const TITLES = { overview: "Overview", waves: "Checkpoints", components: "Components", state: "State", failures: "Failures", configuration: "Configuration" };
const EVERY_MS = 1500;
const SOON_MS = 400; // after the first lost answer: who looks at the page learns within 3 s that the driver is gone
const PATIENCE_MS = 5000;
const STATUS = { ACTIVE: "good", INACTIVE: "warn", STARTING: "warn", FAILED: "bad" };
const NAMES = { INACTIVE: "paused", UNKNOWN: "no end" };

let id = null;
let shownText = "";
let answeredAt = null;
let missed = 0;
let timer = null;
let turn = 0;

function routeNow() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  if (!(parts[0] in VIEWS)) parts[0] = "overview";
  return { hash: location.hash, path: parts, parameters: new URLSearchParams(query ?? "") };
}

async function ask(path, options = {}) {
  const answer = await fetch(`/api/v1/topology/${path}`, { ...options, signal: AbortSignal.timeout(PATIENCE_MS) });
  if (answer.status === 401 && !options.method) location.assign("/login");
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.errorMessage ?? answer.statusText), { status: answer.status });
  return body;
}

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  try {
    id ??= (await ask("summary")).topologies[0].id;
    const route = routeNow();
    const base = encodeURIComponent(id);
    const of = (path) => ask(path.startsWith("?") ? base + path : `${base}/${path}`);
    const view = VIEWS[route.path[0]];
    if (missed) await of("now"); // one question is enough to see whether the driver is back
    const refused = (error) => {
      if (error.status === undefined) throw error;
      return error;
    };
    const [now, data] = await Promise.all([of("now"), view.fetch(route, of).catch(refused)]);
    if (mine !== turn) return;
    [answeredAt, missed] = [new Date(), 0];
    show(route, data instanceof Error ? refusal : view, now, data);
  } catch (error) {
    if (mine !== turn) return;
    trouble(error);
  }
  timer = setTimeout(refresh, document.hidden ? 10 * EVERY_MS : missed === 1 ? SOON_MS : EVERY_MS);
}

function trouble(error) {
  if (error.status === undefined && ++missed < 2) return; // one lost answer is no news
  const since = answeredAt ? ` since ${answeredAt.toLocaleTimeString("en-GB")}` : "";
  const text = error.status === undefined
    ? `The driver ${since ? "has not answered" : "does not answer"}${since}: it was stopped or killed, or it cannot be reached. What is below is old.`
    : `${error.message}.`;
  const place = document.getElementById("trouble");
  if (place.textContent !== text) place.textContent = text;
  place.hidden = false;
  if (error.status === undefined) {
    if (answeredAt && missed === 2) document.getElementById("facts").textContent += `, as of ${answeredAt.toLocaleTimeString("en-GB")}`;
    document.body.classList.add("stale");
    badge("no answer", "bad");
  } else document.getElementById("view").replaceChildren();
  shownText = "";
}

// In place of a view that the server refuses, such as that of a wave that is not known any more.
const refusal = {
  draw: ({ data }) => [h("p", { class: "notice warn" }, `This cannot be shown: ${data.message}.`)],
};

function facts(now) {
  if (!now.isLive) return `history up to ${time(now.at)} · generation ${now.generation} · txid ${now.txid}`;
  if (now.status === "STARTING") return "";
  const commit = now.txid < 0 ? `no commit for ${seconds(now.commitAgeSecs)}` : `last commit ${seconds(now.commitAgeSecs)} ago`;
  return `generation ${now.generation} · txid ${now.txid < 0 ? "none" : now.txid} · ${commit}`;
}

function badge(text, kind) {
  const place = document.getElementById("status");
  place.textContent = text;
  place.className = `badge ${kind}`;
}

function show(route, view, now, data) {
  document.getElementById("trouble").hidden = true;
  document.body.classList.remove("stale");
  document.title = `${id} · ${TITLES[route.path[0]]}`;
  document.getElementById("name").textContent = id;
  const isHealthy = now.ready || !["ACTIVE", "INACTIVE"].includes(now.status);
  const status = now.pausing ? "pausing" : NAMES[now.status] ?? now.status.toLowerCase();
  badge(isHealthy ? status : "no commits", isHealthy ? (STATUS[now.status] ?? "") : "bad");
  document.getElementById("facts").textContent = facts(now);
  navigation(route);
  const selection = document.getSelection();
  const text = JSON.stringify([location.hash, innerWidth, now, data, data.message]);
  if (text === shownText || (selection && !selection.isCollapsed && shownText)) return;
  shownText = text;
  const place = document.getElementById("view");
  const focused = document.activeElement?.id;
  const room = place.clientWidth - parseFloat(getComputedStyle(place).paddingLeft) * 2 - 34;
  place.replaceChildren(...view.draw({ route, now, data, room, act }));
  place.dataset.shown = route.hash;
  if (focused && focused !== "view") document.getElementById(focused)?.focus({ preventScroll: true });
}

function navigation(route) {
  const place = document.getElementById("nav");
  const links = Object.keys(VIEWS).map((name) => h("a", {
    href: link(route, name), id: `nav-${name}`, "aria-current": route.path[0] === name ? "page" : null,
  }, TITLES[name]));
  const focused = document.activeElement?.id;
  place.replaceChildren(...links);
  if (focused?.startsWith("nav-")) document.getElementById(focused)?.focus({ preventScroll: true });
}

const act = (action) => perform(action, id, { ask, refresh, trouble });

addEventListener("hashchange", () => {
  shownText = "";
  refresh();
});
addEventListener("resize", () => refresh());
addEventListener("visibilitychange", () => document.hidden || refresh());
refresh();
