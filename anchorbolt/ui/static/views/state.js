// How large the committed states are and how they grow; the tasks of one bolt, and a key that is looked up.

import { bytes, card, h, link, number, seconds, table, tile } from "../dom.js";
import { lineChart, spreadChart } from "../chart.js";

const PAGE = 50;

let wanted = null; // component and key of the last lookup
let found = null; // its answer: asked for once, not again and again

export const state = {
  async fetch(route, of) {
    if (!route.path[1]) return of("state");
    const path = `state/${encodeURIComponent(route.path[1])}`;
    const first = route.parameters.get("first") ?? "0";
    const sizes = await of(`${path}?${new URLSearchParams({ first, count: PAGE })}`);
    const key = route.parameters.get("key");
    const asked = key === null ? null : JSON.stringify([route.path[1], key]);
    if (asked !== wanted) {
      [wanted, found] = [asked, null];
      const answer = asked && await of(`${path}?${new URLSearchParams({ key })}`).catch((error) => {
        if (error.status === undefined) {
          wanted = null;
          throw error;
        }
        return { refused: error.message };
      });
      if (asked === wanted) found = answer;
    }
    return { ...sizes, lookup: found };
  },
  draw(page) {
    return page.route.path[1] ? one(page) : all(page);
  },
};

const keysOf = (size) => (size.keys === null ? "unknown" : number(size.keys));
const bytesOf = (size) => (size.bytes === null ? "unknown" : bytes(size.bytes));
const keyPoints = (each) => each.history.filter((point) => point.keys !== null).map((point) => [point.ageSecs, point.keys]);
const bytePoints = (each) => each.history.filter((point) => point.bytes !== null).map((point) => [point.ageSecs, point.bytes]);

function grown(growth) {
  return !growth || growth.keys === null ? "–" : `${growth.keys < 0 ? "−" : "+"}${number(Math.abs(growth.keys))}`;
}

// Less than the window is known at the beginning.
function within(growth) {
  const isShort = growth && growth.keys !== null && growth.overSecs < 0.9 * growth.seconds;
  return isShort ? `in ${seconds(growth.overSecs)}` : "";
}

function told(data) {
  if (!data.isLive) return "A history does not hold the sizes of states.";
  if (data.measuredAgeSecs === null) return `Store: ${data.store}. Not measured yet.`;
  return `Store: ${data.store}. Measured ${seconds(data.measuredAgeSecs)} ago.`;
}

function silence(data, rows) {
  const isSilent = data.measuredAgeSecs !== null && rows.some((each) => each.keys === null || each.bytes === null);
  return isSilent && h("p", { class: "quiet" }, `Unknown: ${data.store} does not tell it, or the state is of a class of your own.`);
}

const about = (size) => (size.bytes === null ? "" : "about");

function all({ route, data, room }) {
  const rows = data.components;
  if (!rows.length) return [card("State", h("p", { class: "quiet" }, "No component keeps state."))];
  const known = (name) => rows.filter((each) => each[name] !== null);
  const sum = (name) => (known(name).length ? known(name).reduce((total, each) => total + each[name], 0) : null);
  const whole = { keys: sum("keys"), bytes: sum("bytes") };
  const part = (name) => (known(name).length < rows.length && known(name).length > 0 ? "of those that are known" : "");
  return [
    h("div", { class: "tiles" }, tile("Keys", keysOf(whole), part("keys")), tile("In the store", bytesOf(whole), part("bytes") || about(whole)),
      tile("Components with state", number(rows.length)), tile("Their tasks", number(rows.reduce((total, each) => total + each.tasks, 0)))),
    card("State", table([
      ["Component", (each) => h("a", { href: link(route, `state/${encodeURIComponent(each.component)}`), id: `s-${each.component}` }, each.component)],
      ["Class", (each) => each.type],
      ["Tasks", (each) => number(each.tasks), true],
      ["Keys", keysOf, true],
      ["In 10 min", (each) => `${grown(each.growth[0])} ${within(each.growth[0])}`, true],
      ["In 1 hour", (each) => `${grown(each.growth[1])} ${within(each.growth[1])}`, true],
      ["Bytes", bytesOf, true],
      ["Skew", (each) => (each.skew === null ? "–" : `${each.skew}×`), true],
      ["Keys over time", (each) => (keyPoints(each).length > 1 ? lineChart(`Keys of ${each.component}`, keyPoints(each), number, Math.min(room, 160), 34) : "")],
    ], rows, "States"),
    silence(data, rows),
    h("p", { class: "quiet" }, told(data), " Skew is how many times the keys of the largest task exceed the mean.")),
  ];
}

function one({ route, data, room }) {
  const path = `state/${encodeURIComponent(data.component)}`;
  const [from, to] = [data.tasksFirst, data.tasksFirst + data.bySize.length];
  const key = route.parameters.get("key");
  const turn = (label, first, isThere, id) => h("button", { type: "button", id, disabled: !isThere, onclick: () => {
    location.hash = link(route, path, { key, first });
  } }, label);
  const width = Math.min(room, 640);
  const charts = [["Keys", keyPoints(data), number], ["Bytes", bytePoints(data), bytes]].filter(([, points]) => points.length > 1);
  return [
    h("p", {}, h("a", { href: link(route, "state") }, "← All states")),
    h("h2", {}, `State of ${data.component}`),
    h("div", { class: "tiles" },
      tile("Keys", keysOf(data)), tile("In the store", bytesOf(data), about(data)),
      tile("Last 10 minutes", grown(data.growth[0]), within(data.growth[0])), tile("Last hour", grown(data.growth[1]), within(data.growth[1])),
      tile("Skew", data.skew === null ? "–" : `${data.skew}×`)),
    data.canLookUp && card("Look up a key", form(route, path), lookup(data.lookup)),
    (charts.length > 0 || data.spread?.max > 0) && card("Size", h("div", { class: "split" },
      charts.map(([title, points, show]) => h("div", {}, h("h3", {}, title), lineChart(title, points, show, Math.min(width, room > 700 ? room / 2 - 16 : room), 120)))),
    data.tasks > 1 && data.spread?.max > 0 && spreadChart("Keys by task", data.spread, number, Math.min(room, 300))),
    data.bySize.length > 0 && card(`Tasks ${number(from + 1)} to ${number(to)} of ${number(data.tasks)}, the largest first`, table([
      ["Task", (each) => `${each.task}`, "short"], ["Keys", keysOf, true], ["Bytes", bytesOf, true],
    ], data.bySize, "Sizes of tasks"),
    silence(data, data.bySize),
    data.tasks > PAGE && h("p", { class: "choice" }, turn("← Before", Math.max(0, from - PAGE), from > 0, "before"), turn("Next →", to, to < data.tasks, "next"))),
    h("p", { class: "quiet" }, told(data)),
  ].filter(Boolean);
}

// The form stays the same element, so that what is typed survives the next answer.
const input = h("input", { id: "key", type: "text", maxlength: 2000, autocomplete: "off", spellcheck: "false", "aria-label": "Key", "aria-describedby": "key-help" });
let submitted = () => {};
const made = h("form", { class: "ask", onsubmit: (event) => {
  event.preventDefault();
  submitted();
} }, input, h("button", { id: "look-up" }, "Look up"));
let formOf = null;

function form(route, path) {
  const key = route.parameters.get("key") ?? "";
  if (formOf !== `${path} ${key}`) {
    formOf = `${path} ${key}`;
    input.value = key;
  }
  submitted = () => {
    const next = link(route, path, { key: input.value });
    wanted = null;
    if (location.hash === next) dispatchEvent(new Event("hashchange"));
    else location.hash = next;
  };
  const example = (text) => h("code", {}, text);
  return h("div", {}, made, h("p", { class: "quiet", id: "key-help" },
    "Text as ", example("apple"), " or ", example('"7"'), ", a number as ", example("7"), ", a tuple as ", example('["a", 1]'),
    ", bytes as ", example("b'\\x00'"), ", None as ", example("null"), "."));
}

function lookup(answer) {
  if (!answer) return "";
  if (answer.refused) return h("p", { class: "notice warn" }, `${answer.refused}.`);
  const all = answer.tasksAsked === answer.tasksTotal;
  const asked = all ? `${number(answer.tasksTotal)} tasks were asked` : `only ${number(answer.tasksAsked)} of ${number(answer.tasksTotal)} tasks were asked`;
  if (!answer.found.length) return h("p", { class: "notice" }, "No task has the key ", h("code", {}, answer.keyText), `: ${asked}.`);
  return h("div", {},
    answer.found.map((each) => h("div", {},
      h("h3", {}, `Task ${each.task}, ${bytes(each.bytes)} stored`),
      each.problem ? h("p", { class: "notice warn" }, `${each.problem.replace(/\.$/, "")}.`) : h("pre", {}, each.text))),
    h("p", { class: "quiet" }, "The committed value of ", h("code", {}, answer.keyText), ` when it was looked up; ${asked}.`));
}
