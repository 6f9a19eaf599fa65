// Bars: the phases of waves, and how a quantity is spread over tasks. A line: how a quantity changed.

import { h, link, ms, number, seconds, time } from "./dom.js";

export const PHASES = ["source", "compute", "prepare", "decide", "commit"];

export function phaseLegend() {
  return h("ul", { class: "legend", "aria-label": "Colours of the phases" }, PHASES.map((phase) =>
    h("li", {}, h("svg", { width: 12, height: 12, "aria-hidden": "true" }, h("rect", { width: 12, height: 12, rx: 3, class: `f-${phase}` })), phase)));
}

// Bars of the waves from the oldest to the newest; each is a link to its wave.
export function waveChart(waves, route, room, height = 170) {
  if (!waves.length) return h("p", { class: "quiet" }, "No wave is known.");
  const left = 62;
  const top = 14;
  const width = Math.max(room, 200);
  const step = Math.min(26, (width - left) / waves.length);
  const high = highest(waves.map((each) => each.total_ms));
  const y = (value) => top + (height - top) * (1 - Math.min(value / high, 1));
  const axis = [0, 0.5, 1].map((share) => [
    h("line", { class: "axis", x1: left, x2: width, y1: y(share * high), y2: y(share * high) }),
    h("text", { class: "small", x: left - 6, y: y(share * high) + 4, "text-anchor": "end" }, share === 0 ? "0" : ms(share * high)),
  ]);
  const labels = []; // behind each group of bars that are cut off: how long they are
  let cut = [];
  let free = 0; // from where on there is room for a label
  const bars = waves.map((wave, index) => {
    const x = left + index * step;
    const again = wave.rounds > 1 ? `, ${wave.rounds} rounds` : "";
    const text = `wave ${wave.txid} at ${time(wave.at)}: ${ms(wave.total_ms)}${again}`;
    let below = 0;
    const parts = PHASES.map((phase) => {
      const value = wave.phases_ms?.[phase] ?? 0;
      const bottom = y(below);
      below += value;
      return value > 0 && h("rect", { class: `f-${phase}`, x, width: Math.max(1, step - 2), y: y(below), height: Math.max(0.3, bottom - y(below)) });
    });
    const gap = wave.total_ms > high && h("rect", { class: "gap", x, y: top + 5, width: Math.max(1, step - 2), height: 3 });
    const mark = wave.rounds > 1 && h("circle", { class: "f-bad", cx: x + (step - 2) / 2, cy: Math.max(5, y(below) - 7), r: 4 });
    if (wave.total_ms > high) cut.push(wave.total_ms);
    if (cut.length && !(waves[index + 1]?.total_ms > high)) {
      const text = cut.length < 4 ? cut.map(ms).join(", ") : `${ms(Math.min(...cut))} to ${ms(Math.max(...cut))}`;
      const long = 8 * text.length;
      const from = x + step + long > width ? x - 3 - (cut.length - 1) * step - long : x + step + 1;
      if (from >= free) labels.push(h("text", { class: "halo", x: from, y: top + 12 }, text));
      free = Math.max(free, from + long);
      cut = [];
    }
    return h("a", { svg: true, class: "chart-bar", href: link(route, `waves/${wave.txid}`), "aria-label": text, tabindex: -1 },
      h("title", {}, text), h("rect", { x, y: top, width: step, height: height - top, fill: "transparent" }), parts, gap, mark);
  });
  const phases = PHASES.map((phase) => {
    const times = waves.map((each) => each.phases_ms?.[phase] ?? 0);
    return `${phase} ${ms(times.reduce((a, b) => a + b, 0) / times.length)}`;
  });
  return h("svg", { width, height: height + 6, role: "group", "aria-label": `Times of ${waves.length} waves. On average: ${phases.join(", ")}` }, axis, bars, labels);
}

export function spreadChart(title, spread, show, room) {
  const width = Math.min(Math.max(room, 180), 340);
  const height = 74;
  const most = Math.max(...spread.bars, 1);
  const step = width / spread.bars.length;
  const barHeight = (count) => Math.max(3, (height * count) / most); // one task of a thousand stays visible
  const bars = spread.bars.map((count, index) => count > 0 && h("rect", {
    class: "f-compute", x: index * step, width: Math.max(1, step - 2), y: height - barHeight(count), height: barHeight(count),
  }, h("title", {}, `${number(count)} tasks`)));
  const text = `least ${show(spread.min)}, median ${show(spread.median)}, most ${show(spread.max)}`;
  return h("div", {}, h("h3", {}, title),
    h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} by task: ${text}` }, bars, h("line", { class: "axis", x1: 0, x2: width, y1: height, y2: height })),
    h("div", { class: "quiet" }, text));
}

// points: [age in seconds, value], the oldest first. A low chart has no axis.
export function lineChart(title, points, show, room, height) {
  const hasAxis = height > 60;
  const [left, bottom] = hasAxis ? [64, height - 18] : [2, height - 3];
  const width = Math.max(room, 100);
  const values = points.map(([, value]) => value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const [oldest, newest] = [points[0][0], points[points.length - 1][0]];
  const x = (age) => left + (width - left - 3) * (oldest === newest ? 1 : (oldest - age) / (oldest - newest));
  const y = (value) => (low === high ? bottom / 2 : 4 + (bottom - 4) * (1 - (value - low) / (high - low)));
  const line = points.map(([age, value]) => `${x(age).toFixed(1)},${y(value).toFixed(1)}`).join(" L");
  const label = (value) => h("text", { class: "small", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, show(value));
  const text = `${title}: from ${show(values[0])} to ${show(values[values.length - 1])} in ${seconds(oldest - newest)}`;
  return h("svg", { width, height, role: "img", "aria-label": text }, h("title", {}, text),
    hasAxis && [
      [...new Set([low, high])].map((value) => [h("line", { class: "axis", x1: left, x2: width, y1: y(value), y2: y(value) }), label(value)]),
      h("text", { class: "small", x: left, y: height - 2 }, `${seconds(oldest)} ago`),
      h("text", { class: "small", x: width, y: height - 2, "text-anchor": "end" }, `${seconds(newest)} ago`),
    ],
    h("path", { class: "line", d: `M${line}` }));
}

// The top of the axis. A few waves that took far longer than the others, such as a first one, are cut off.
function highest(times) {
  const sorted = [...times].sort((a, b) => a - b);
  const usual = sorted[Math.floor(0.9 * (sorted.length - 1))];
  const most = sorted[sorted.length - 1];
  return niceCeiling(Math.max(1, most > 4 * usual ? 2 * usual : most));
}

function niceCeiling(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 5, 7.5, 10].map((each) => each * size).find((each) => each >= value);
}
