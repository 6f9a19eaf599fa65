// Draws the topology: components with their capacity, streams with their rates.

import { h, link, load, number, shorter } from "./dom.js";
import { layout } from "./layout.js";

const HEIGHT = 66;
const WIDE = 166;
const NARROW = 154; // two of them side by side on a phone
const MARGIN = 4;

export function drawGraph(graph, route, room) {
  const nodes = graph.components.filter((each) => each.kind !== "acker");
  if (!nodes.length) return h("p", { class: "quiet" }, "The graph is not known yet.");
  const levels = Math.max(...nodes.map((each) => each.level)) + 1;
  const length = room - 2 * MARGIN;
  const isWide = length >= levels * WIDE + (levels - 1) * 60;
  const size = { width: isWide ? WIDE : NARROW, height: HEIGHT };
  const gapBetween = isWide ? Math.min(150, (length - levels * WIDE) / Math.max(levels - 1, 1)) : 58;
  const found = layout(nodes, graph.edges, isWide
    ? { across: HEIGHT, down: WIDE + gapBetween, height: WIDE, gap: 26 }
    : { across: NARROW, down: HEIGHT + gapBetween, height: HEIGHT, gap: 8 });
  const xy = (point) => (isWide ? [point.down, point.across] : [point.across, point.down]);
  const [width, height] = isWide ? [found.down, found.across] : [found.across, found.down];
  const busiest = Math.max(...graph.edges.map((each) => each.perSecond ?? 0), 1e-9);
  const taken = nodes.map((node) => around(xy(found.places.get(node.id)), size.width, size.height));
  const chained = new Set(nodes.filter((each) => each.chainedTo).map((each) => each.id));
  const lines = [];
  const labels = [];
  graph.edges.forEach((edge, index) => {
    const share = Math.sqrt((edge.perSecond ?? 0) / busiest);
    const { path, tip, segments } = route_(found.chains[index], xy, isWide, size);
    const title = `${edge.source} → ${edge.target}, stream ${edge.stream}, by ${edge.grouping}${chained.has(edge.target) ? ", chained" : ""}: ${number(edge.perSecond)} tuples a second`;
    const rate = edge.perSecond === null ? shorter(edge.grouping, 16) : `${number(edge.perSecond)}/s`;
    const text = chained.has(edge.target) ? `chained ${rate}` : rate;
    const place = freePlace(segments, isWide, textWidth(text, "11px"), taken);
    lines.push(h("path", { d: path, class: "edge", "stroke-width": (1.2 + 3.3 * share).toFixed(1) }, h("title", {}, title)),
      h("polygon", { class: "arrow", points: arrow(tip, isWide) }));
    if (place) labels.push(h("text", { class: "halo", x: place[0], y: place[1] + 4, "text-anchor": "middle" }, text));
  });
  const boxes = nodes.map((node) => drawNode(node, xy(found.places.get(node.id)), route, size));
  return h("div", { class: "scroll" },
    h("svg", { width: width + 2 * MARGIN, height: height + 2 * MARGIN, viewBox: `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`,
      role: "group", "aria-label": "Graph of the topology" }, lines, labels, boxes));
}

function drawNode(node, [x, y], route, { width, height }) {
  const isMeasured = node.capacity !== null && node.kind !== "spout";
  const left = x - width / 2;
  const top = y - height / 2;
  const shift = isMeasured ? 0 : 9; // two lines in the middle instead of four
  const inner = width - 20;
  const kind = node.kind === "spout" ? "spout" : node.stateful ? "stateful bolt" : node.sink ? "sink" : "bolt";
  const rate = node.kind === "spout" ? node.emittedPerSecond : node.executedPerSecond;
  const capacity = isMeasured ? `capacity ${node.capacity.toFixed(2)}` : "";
  const label = `${node.id}: ${kind} with ${node.tasks} tasks${node.chainedTo ? `, chained to ${node.chainedTo}` : ""}, ${number(rate)} tuples a second${capacity && `, ${capacity}`}`;
  return h("a", { svg: true, class: "node", href: link(route, `components/${encodeURIComponent(node.id)}`), id: `node-${node.id}`, "aria-label": label },
    h("title", {}, label),
    h("rect", { class: "box", x: left, y: top, width, height, rx: node.kind === "spout" ? 26 : 9 }),
    h("text", { class: "name", x, y: top + 20 + shift, "text-anchor": "middle" }, fitting(node.id, width - 14, "600 13px")),
    h("text", { class: "small", x, y: top + 36 + shift, "text-anchor": "middle" },
      fitting(`${node.stateful ? "stateful" : kind} ×${number(node.tasks)} · ${number(rate)}/s`, width - 8, "11px")),
    isMeasured && [
      h("rect", { class: "track", x: left + 10, y: top + 43, width: inner, height: 5, rx: 2.5 }),
      h("rect", { class: `f-load-${load(node.capacity)}`, x: left + 10, y: top + 43, height: 5, rx: 2.5, width: Math.max(2, Math.min(1, node.capacity) * inner) }),
      h("text", { class: "small", x, y: top + 60, "text-anchor": "middle" }, capacity),
    ]);
}

// A smooth line from the edge of the first box to that of the last one, through the points between.
function route_(chain, xy, isWide, { width, height }) {
  const half = (isWide ? width : height) / 2;
  const points = chain.map((each) => [...xy(each)]);
  const axis = isWide ? 0 : 1;
  points[0][axis] += half;
  const end = points[points.length - 1];
  end[axis] -= half;
  const tip = [...end];
  end[axis] -= 6;
  const segments = [];
  let path = `M${points[0]}`;
  for (let i = 1; i < points.length; i++) {
    const [from, to] = [points[i - 1], points[i]];
    const pull = (to[axis] - from[axis]) / 2;
    const [one, two] = [[...from], [...to]];
    one[axis] += pull;
    two[axis] -= pull;
    path += `C${one} ${two} ${to}`;
    segments.push([from, to]);
  }
  return { path, tip, segments };
}

// The place of an edge's label on its line, nearest to the middle, that is on no box and no other label. Undefined if
// there is none: the title of the line has the text, too.
function freePlace(segments, isWide, width, taken) {
  const middle = Math.floor((segments.length - 1) / 2);
  const order = segments.map((each, index) => [Math.abs(index - middle), each]).sort(([a], [b]) => a - b);
  const places = order.flatMap(([, segment]) => [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8].map((share) => onLine(segment, share, isWide)));
  const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const free = places.find((each) => !taken.some((other) => overlaps(around(each, width + 4, 14), other)));
  if (free) taken.push(around(free, width + 4, 14));
  return free;
}

// A point of the curve that `route_` draws between two points.
function onLine([from, to], t, isWide) {
  const along = 1.5 * t * (1 - t) + t ** 3;
  const aside = 3 * t ** 2 - 2 * t ** 3;
  const [x, y] = isWide ? [along, aside] : [aside, along];
  return [from[0] + (to[0] - from[0]) * x, from[1] + (to[1] - from[1]) * y];
}

function around([x, y], width, height) {
  return { left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
}

const pen = document.createElement("canvas").getContext("2d");

function textWidth(text, font) {
  pen.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

function fitting(text, width, font) {
  let most = text.length;
  while (most > 1 && textWidth(shorter(text, most), font) > width) most--;
  return shorter(text, most);
}

function arrow([x, y], isWide) {
  return isWide ? `${x},${y} ${x - 9},${y - 5} ${x - 9},${y + 5}` : `${x},${y} ${x - 5},${y - 9} ${x + 5},${y - 9}`;
}

export function loadLegend() {
  const steps = [["0", "below 0.3"], ["1", "0.3 to 0.7"], ["2", "0.7 to 0.9"], ["3", "0.9 and more: the task has no time left"]];
  return h("ul", { class: "legend", "aria-label": "Colours of the capacity" },
    h("li", {}, "Capacity of the busiest task:"),
    steps.map(([step, text]) => h("li", {}, h("svg", { width: 12, height: 12, "aria-hidden": "true" }, h("rect", { width: 12, height: 12, rx: 3, class: `f-load-${step}` })), text)));
}
