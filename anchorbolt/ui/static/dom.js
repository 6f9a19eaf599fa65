// Elements, numbers and links. Text is always set as text: nothing that a topology names can become markup.

const SVG = "http://www.w3.org/2000/svg";
const OF_SVG = new Set(["svg", "g", "rect", "path", "text", "line", "circle", "title", "defs", "marker", "polygon"]);

export function h(tag, attributes = {}, ...children) {
  const isSvg = OF_SVG.has(tag) || (tag === "a" && attributes.svg);
  const element = isSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "svg" || value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
  return value.toFixed(size >= 10 ? 1 : 2);
}

export function bytes(value) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  return `${Math.round(value)} B`;
}

export function ms(value) {
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  if (value > 0 && value < 0.1) return `${Math.round(value * 1000)} µs`;
  return value >= 10 ? `${Math.round(value).toLocaleString("en")} ms` : `${value.toFixed(1)} ms`;
}

export function seconds(value) {
  if (value < 60) return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(value % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function time(at) {
  const date = new Date(at * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString("en-GB") : date.toLocaleString("en-GB");
}

export function shorter(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

// A link within the page: the route, with parameters that differ from those of now. `null` removes one.
export function link(route, path, changes = {}) {
  const all = { window: route.parameters.get("window"), ...changes };
  const kept = Object.entries(all).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

// columns: [heading, cell of a row, "number" or "short" if it must not be wrapped, "wide" if it is a sentence]
export function table(columns, rows, caption) {
  const kindOf = (kind) => (kind === true ? "number" : kind);
  const cell = (row, [heading, make, kind]) => {
    const made = make(row);
    const isEmpty = made === "" || made === null;
    return h("td", { class: [kindOf(kind), isEmpty && "empty"].filter(Boolean).join(" ") || null, "data-label": heading }, made);
  };
  return h("div", { class: "scroll" },
    h("table", { class: "cards", "aria-label": caption },
      h("thead", {}, h("tr", {}, columns.map(([heading, , kind]) => h("th", { class: kindOf(kind), scope: "col" }, heading)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((column) => cell(row, column)))))));
}

export function card(title, ...content) {
  return h("section", { class: "card" }, title && h("h2", {}, title), content);
}

export function tile(label, value, detail) {
  return h("div", { class: "tile" }, h("span", {}, label), h("b", {}, value), detail && h("span", {}, detail));
}

const WINDOWS = [["600", "10 min"], ["10800", "3 h"], ["86400", "1 day"], [":all-time", "all"]];

export function windowOf(route) {
  return route.parameters.get("window") ?? "600";
}

export function windowChoice(route) {
  return h("span", { class: "choice", role: "group", "aria-label": "Window of the figures" },
    WINDOWS.map(([window, label]) => h("a", {
      href: link(route, route.path.join("/"), { window }), id: `window-${window}`,
      "aria-current": windowOf(route) === window ? "true" : null,
    }, label)));
}

export function load(capacity) {
  return capacity >= 0.9 ? 3 : capacity >= 0.7 ? 2 : capacity >= 0.3 ? 1 : 0;
}

export function meter(capacity) {
  if (capacity === null) return "–";
  const width = Math.min(64, 64 * capacity);
  return h("span", {},
    h("span", { class: "meter", "aria-hidden": "true" },
      h("svg", { width: 64, height: 8 }, h("rect", { width, height: 8, class: `f-load-${load(capacity)}` }))),
    capacity.toFixed(3));
}
