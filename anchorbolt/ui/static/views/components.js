// All components, and one with its tasks.

import { bytes, card, h, link, meter, ms, number, seconds, shorter, table, tile, windowChoice, windowOf } from "../dom.js";
import { spreadChart } from "../chart.js";

const PAGE = 50;
const SORTS = [["task", "number"], ["executed", "executed"], ["capacity", "capacity"], ["failed", "failed"], ["bytesStaged", "staged"]];

export const components = {
  fetch(route, of) {
    const window = encodeURIComponent(windowOf(route));
    if (!route.path[1]) return of(`?window=${window}&sys=1`);
    const first = route.parameters.get("first") ?? "0";
    const sort = route.parameters.get("sort") ?? "executed";
    return of(`component/${encodeURIComponent(route.path[1])}?${new URLSearchParams({ window: windowOf(route), first, sort, count: PAGE })}`);
  },
  draw(page) {
    return page.route.path[1] ? one(page) : all(page);
  },
};

function error(each) {
  return each.lastError ? h("span", {}, `${seconds(each.errorLapsedSecs)} ago: ${shorter(each.lastError, 160)}`) : "";
}

function all({ route, data }) {
  // The history has the messages of all spouts together.
  const messages = (what) => (each) => (data.isLive || data.spouts.length === 1 ? number(each[what]) : "–");
  const name = (each) => each.boltId ?? each.spoutId;
  const common = [
    ["Id", (each) => h("a", { href: link(route, `components/${encodeURIComponent(name(each))}`), id: `c-${name(each)}` }, name(each))],
    ["Class", (each) => each.type],
    ["Tasks", (each) => number(each.tasks), true],
  ];
  return [
    h("div", { class: "bar" }, h("h2", {}, `Over ${data.windowHint === "All time" ? "all time" : data.windowHint}`), windowChoice(route)),
    card("Spouts", table([
      ...common,
      ["Read", (each) => number(each.executed), true],
      ["Emitted", (each) => number(each.emitted), true],
      ["Acked", messages("acked"), true],
      ["Complete latency", (each) => (each.completeLatency ? ms(Number(each.completeLatency)) : "–"), true],
      ["Failed", messages("failed"), true],
      ["Dead letters", messages("deadLetters"), true],
      ["Last error", error, "wide"],
    ], data.spouts, "Spouts")),
    card("Bolts", table([
      ...common,
      ["Executed", (each) => number(each.executed), true],
      ["Emitted", (each) => number(each.emitted), true],
      ["Acked", (each) => (data.isLive ? number(each.acked) : "–"), true],
      ["Failed", (each) => (data.isLive ? number(each.failed) : "–"), true],
      ["Latency", (each) => (data.isLive ? ms(Number(each.executeLatency)) : "–"), true],
      ["Capacity", (each) => meter(data.isLive ? Number(each.capacity) : null), true],
      ["Skew", (each) => (each.skew === null ? "–" : `${each.skew}×`), true],
      ["Staged", (each) => (!each.stateful ? "" : data.isLive ? `${number(each.keysStaged)} keys` : "–"), true],
      ["Last error", error, "wide"],
    ], data.bolts, "Bolts"),
    h("p", { class: "quiet" }, "Capacity is that of the busiest task: the share of the window in which it works. Skew is how many times the busiest task's tuples exceed the mean.")),
    data.isLive && card("Where the time goes", table([
      ["Id", name],
      ["Source", (each) => ms(each.sourceMs), true],
      ["Decode", (each) => ms(each.decodeMs), true],
      ["Execute", (each) => ms(Math.max(0, each.busyMs - each.decodeMs - each.readMs - each.encodeMs - each.stageMs - each.sealMs)), true],
      ["State", (each) => ms(each.readMs), true],
      ["Encode", (each) => ms(each.encodeMs), true],
      ["Stage", (each) => ms(each.stageMs + each.sealMs), true],
    ], [...data.spouts, ...data.bolts], "Where the time goes"),
    h("p", { class: "quiet" }, "The time of all tasks together. Execute is the bolt's own code; state is reads from the store; encode is grouping and encoding what it sends.")),
    Object.values(data.storeMs).some((each) => each.count) && card("Store", table([
      ["Call", ([operation]) => operation],
      ["Calls", ([, each]) => number(each.count), true],
      ["p50", ([, each]) => (each.count ? ms(each.p50) : "–"), true],
      ["p99", ([, each]) => (each.count ? ms(each.p99) : "–"), true],
    ], Object.entries(data.storeMs), "Calls of the store")),
  ].filter(Boolean);
}

function one({ route, data, room }) {
  const stats = (data.boltStats ?? data.spoutSummary).find((each) => each.window === data.window);
  const path = `components/${encodeURIComponent(data.id)}`;
  const sort = route.parameters.get("sort") ?? "executed";
  const [from, to, of] = [data.executorsFirst, data.executorsFirst + data.executorStats.length, data.executorsTotal];
  const turn = (label, first, isThere, id) => h("button", { type: "button", id, disabled: !isThere, onclick: () => {
    location.hash = link(route, path, { sort, first });
  } }, label);
  const spreads = [["executed", "Executed tuples", number], ["executeMs", "Time in execute", ms], ["prepareMs", "Time in prepare", ms], ["stageMs", "Time in staging", ms], ["sealMs", "Time in sealing", ms], ["bytesStaged", "Staged bytes", bytes]];
  return [
    h("p", {}, h("a", { href: link(route, "components") }, "← All components")),
    h("div", { class: "bar" }, h("h2", {}, `${data.id}: ${data.componentType} ${data.type}`), windowChoice(route)),
    data.chainedTo && h("p", { class: "quiet" }, `Chained to ${data.chainedTo}: each of its tasks takes all that the task of ${data.chainedTo} with its number sends, without a shuffle.`),
    h("div", { class: "tiles" },
      tile("Executed", number(stats.executed)), tile("Emitted", number(stats.emitted)),
      stats.acked !== undefined && tile("Acked", number(stats.acked)), tile("Failed", number(stats.failed)),
      stats.completeLatency && tile("Complete latency", ms(Number(stats.completeLatency)), "from emit to ack"),
      data.componentType === "bolt" && of > 0 && tile("Latency", ms(Number(stats.executeLatency))),
      data.componentType === "bolt" && of > 0 && tile("Capacity", stats.capacity, "of the busiest task"),
      tile("Skew", data.skew === null ? "–" : `${data.skew}×`),
      stats.keysStaged > 0 && tile("Staged keys", number(stats.keysStaged), bytes(stats.bytesStaged)),
      data.time?.watermark != null && tile("Watermark", new Date(data.time.watermark).toISOString().replace("T", " ").slice(0, 19), `${seconds(data.time.watermarkLagMs / 1000)} behind the clock`),
      (data.time?.timersWaiting > 0 || stats.timersFired > 0) && tile("Timers", number(data.time?.timersWaiting ?? 0), `set; ${number(stats.timersFired)} fired`),
      stats.keysSwept > 0 && tile("Expired", number(stats.keysSwept), "entries deleted"),
      stats.keysRead + stats.keysCached > 0 && tile("Cache", `${Math.round((100 * stats.keysCached) / (stats.keysRead + stats.keysCached))} %`, "of prefetched keys")),
    data.componentErrors.map((each) => h("p", { class: "notice bad" }, `${seconds(each.errorLapsedSecs)} ago: ${each.error}`)),
    of > 1 && card(`How its ${number(of)} tasks differ`, h("div", { class: "spreads" },
      spreads.filter(([name]) => data.spread[name]?.max > 0).map(([name, title, show]) => spreadChart(title, data.spread[name], show, Math.min(room, 300))))),
    h("section", { class: "card" },
      h("div", { class: "bar" }, h("h2", {}, of ? `Tasks ${number(from + 1)} to ${number(to)} of ${number(of)}` : "Tasks"),
        h("span", { class: "choice", role: "group", "aria-label": "Order of the tasks" }, "by", SORTS.map(([key, label]) => h("a", {
          href: link(route, path, { sort: key }), id: `sort-${key}`, "aria-current": sort === key ? "true" : null }, label)))),
      of ? table([
        ["Task", (each) => each.id, true],
        ["Executed", (each) => number(each.executed), true],
        ["Emitted", (each) => number(each.emitted), true],
        data.executorStats.some((each) => each.acked !== undefined) && ["Acked", (each) => number(each.acked), true],
        data.executorStats.some((each) => each.failed !== undefined) && ["Failed", (each) => number(each.failed), true],
        data.executorStats.some((each) => each.completeLatency) && ["Complete latency", (each) => ms(Number(each.completeLatency)), true],
        ["Latency", (each) => ms(Number(each.executeLatency)), true],
        ["Capacity", (each) => meter(Number(each.capacity)), true],
        ["Prepare", (each) => ms(each.prepareMs), true],
        ["Stage", (each) => ms(each.stageMs), true],
        ["Seal", (each) => ms(each.sealMs), true],
        ["Keys staged", (each) => number(each.keysStaged), true],
        ["Sent", (each) => bytes(each.bytesOut), true],
      ].filter(Boolean), data.executorStats, "Tasks") : h("p", { class: "quiet" }, "The history does not have the figures of tasks; each wave has their spread."),
      of > PAGE && h("p", { class: "choice" }, turn("← Before", Math.max(0, from - PAGE), from > 0, "before"), turn("Next →", to, to < of, "next"))),
    h("div", { class: "split" },
      data.inputStats.length > 0 && card("Takes", table([
        ["From", (each) => each.component], ["Stream", (each) => each.stream], ["By", (each) => each.grouping], ["Executed", (each) => number(each.executed), true],
      ], data.inputStats, "Inputs")),
      data.outputStats.length > 0 && card("Sends", table([
        ["To", (each) => each.target], ["Stream", (each) => each.stream], ["Tuples", (each) => number(each.transferred), true],
      ], data.outputStats.flatMap((each) => each.targets.map((target) => ({ ...target, stream: each.stream }))), "Outputs"))),
  ].flat().filter(Boolean);
}
