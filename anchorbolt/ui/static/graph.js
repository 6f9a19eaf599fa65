// Draws the topology: components with their capacity, streams with their rates.

import { h, link, load, number, shorter } from "./dom.js";
import { layout } from "./layout.js";

const NODE = { width: 166, height: 66 };

export function drawGraph(graph, route, room) {
  const nodes = graph.components.filter((each) => each.kind !== "acker");
  if (!nodes.length) return h("p", { class: "quiet" }, "The graph is not known yet.");
  const levels = Math.max(...nodes.map((each) => each.level)) + 1;
  const isWide = room >= levels * NODE.width + (levels - 1) * 60;
  const gapBetween = isWide ? Math.min(150, (room - levels * NODE.width) / Math.max(levels - 1, 1)) : 58;
  const found = layout(nodes, graph.edges, isWide
    ? { across: NODE.height, down: NODE.width + gapBetween, height: NODE.width, gap: 26 }
    : { across: NODE.width, down: NODE.height + gapBetween, height: NODE.height, gap: 8 });
  const xy = (point) => (isWide ? [point.down, point.across] : [point.across, point.down]);
  const [width, height] = isWide ? [found.down, found.across] : [found.across, found.down];
  const busiest = Math.max(...graph.edges.map((each) => each.perSecond ?? 0), 1e-9);
  const lines = [];
  const labels = [];
  graph.edges.forEach((edge, index) => {
    const share = Math.sqrt((edge.perSecond ?? 0) / busiest);
    const { path, middle, direction } = route_(found.chains[index], xy, isWide);
    const title = `${edge.source} → ${edge.target}, stream ${edge.stream}, by ${edge.grouping}: ${number(edge.perSecond)} tuples a second`;
    lines.push(h("path", { d: path, class: "edge", "stroke-width": (1.2 + 3.3 * share).toFixed(1) }, h("title", {}, title)),
      h("polygon", { class: "arrow", points: arrow(direction) }));
    labels.push(h("text", { class: "halo", x: middle[0], y: middle[1] + 4, "text-anchor": "middle" },
      edge.perSecond === null ? shorter(edge.grouping, 16) : `${number(edge.perSecond)}/s`));
  });
  const boxes = nodes.map((node) => drawNode(node, xy(found.places.get(node.id)), route));
  const margin = 4;
  return h("div", { class: "scroll" },
    h("svg", { width: width + 2 * margin, height: height + 2 * margin, viewBox: `${-margin} ${-margin} ${width + 2 * margin} ${height + 2 * margin}`,
      role: "group", "aria-label": "Graph of the topology" }, lines, labels, boxes));
}

function drawNode(node, [x, y], route) {
  const isMeasured = node.capacity !== null && node.kind !== "spout";
  const left = x - NODE.width / 2;
  const top = y - NODE.height / 2;
  const shift = isMeasured ? 0 : 9; // two lines in the middle instead of four
  const inner = NODE.width - 20;
  const kind = node.kind === "spout" ? "spout" : node.stateful ? "stateful bolt" : node.sink ? "sink" : "bolt";
  const rate = node.kind === "spout" ? node.emittedPerSecond : node.executedPerSecond;
  const capacity = isMeasured ? `capacity ${node.capacity.toFixed(2)}` : "";
  const label = `${node.id}: ${kind} with ${node.tasks} tasks, ${number(rate)} tuples a second${capacity && `, ${capacity}`}`;
  return h("a", { svg: true, class: "node", href: link(route, `components/${encodeURIComponent(node.id)}`), id: `node-${node.id}`, "aria-label": label },
    h("title", {}, label),
    h("rect", { class: "box", x: left, y: top, width: NODE.width, height: NODE.height, rx: node.kind === "spout" ? 26 : 9 }),
    h("text", { class: "name", x, y: top + 20 + shift, "text-anchor": "middle" }, shorter(node.id, 22)),
    h("text", { class: "small", x, y: top + 36 + shift, "text-anchor": "middle" }, `${kind} ×${number(node.tasks)} · ${number(rate)}/s`),
    isMeasured && [
      h("rect", { class: "track", x: left + 10, y: top + 43, width: inner, height: 5, rx: 2.5 }),
      h("rect", { class: `f-load-${load(node.capacity)}`, x: left + 10, y: top + 43, height: 5, rx: 2.5, width: Math.max(2, Math.min(1, node.capacity) * inner) }),
      h("text", { class: "small", x, y: top + 60, "text-anchor": "middle" }, capacity),
    ]);
}

// A smooth line from the edge of the first box to that of the last one, through the points between.
function route_(chain, xy, isWide) {
  const half = (isWide ? NODE.width : NODE.height) / 2;
  const points = chain.map(xy);
  const axis = isWide ? 0 : 1;
  points[0] = [...points[0]];
  points[0][axis] += half;
  const end = [...points[points.length - 1]];
  end[axis] -= half;
  const tip = [...end];
  end[axis] -= 6;
  points[points.length - 1] = end;
  let path = `M${points[0]}`;
  for (let i = 1; i < points.length; i++) {
    const [from, to] = [points[i - 1], points[i]];
    const pull = (to[axis] - from[axis]) / 2;
    const [one, two] = [[...from], [...to]];
    one[axis] += pull;
    two[axis] -= pull;
    path += `C${one} ${two} ${to}`;
  }
  const at = Math.max(1, Math.floor(points.length / 2));
  const middle = [(points[at - 1][0] + points[at][0]) / 2, (points[at - 1][1] + points[at][1]) / 2];
  return { path, middle, direction: { tip, isWide } };
}

function arrow({ tip: [x, y], isWide }) {
  return isWide ? `${x},${y} ${x - 9},${y - 5} ${x - 9},${y + 5}` : `${x},${y} ${x - 5},${y - 9} ${x + 5},${y - 9}`;
}

export function loadLegend() {
  const steps = [["0", "below 0.3"], ["1", "0.3 to 0.7"], ["2", "0.7 to 0.9"], ["3", "0.9 and more: the task has no time left"]];
  return h("ul", { class: "legend", "aria-label": "Colours of the capacity" },
    h("li", {}, "Capacity of the busiest task:"),
    steps.map(([step, text]) => h("li", {}, h("svg", { width: 12, height: 12, "aria-hidden": "true" }, h("rect", { width: 12, height: 12, rx: 3, class: `f-load-${step}` })), text)));
}
