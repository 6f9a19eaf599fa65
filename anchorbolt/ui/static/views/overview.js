// The graph, what the run does now, and the latest waves.

import { bytes, card, h, link, ms, number, seconds, table, tile, windowChoice, windowOf } from "../dom.js";
import { actions, pauseNotice } from "../actions.js";
import { drawGraph, loadLegend } from "../graph.js";
import { phaseLegend, waveChart } from "../chart.js";
import { spoutsCard } from "../spouts.js";
import { trace } from "../traces.js";

export const overview = {
  async fetch(route, of) {
    const window = encodeURIComponent(windowOf(route));
    const [graph, waves, topology] = await Promise.all([of(`graph?window=${window}`), of("waves?last=120"), of(`?window=${window}`)]);
    return { graph, waves: waves.waves, topology };
  },

  draw({ route, now, data: { graph, waves, topology }, room, act }) {
    const committed = waves.filter((each) => each.kind === "wave");
    const shown = committed.slice(0, Math.max(20, Math.floor(room / 9))).reverse();
    return [
      blocking(now, act),
      h("div", { class: "tiles" }, tiles(now, graph, topology)),
      h("section", { class: "card" },
        h("div", { class: "bar" }, h("h2", {}, "Graph"), windowChoice(route)),
        drawGraph(graph, route, room), now.isLive && loadLegend()),
      h("section", { class: "card" },
        h("div", { class: "bar" }, h("h2", {}, "Latest waves"), h("a", { href: link(route, "waves") }, "All checkpoints")),
        waveChart(shown, route, room), phaseLegend()),
      spoutsCard(now),
      workersCard(topology.workers),
    ].filter(Boolean);
  },
};

function tiles(now, graph, topology) {
  const stats = topology.topologyStats.find((each) => each.window === topology.window);
  const spouts = graph.components.filter((each) => each.kind === "spout");
  const bolts = graph.components.filter((each) => each.kind === "bolt");
  const sum = (list, name) => list.reduce((total, each) => total + each[name], 0);
  const compute = topology.phasesMs.compute ?? { p50: 0, count: 0 };
  const checkpoint = ["prepare", "decide", "commit"].reduce((total, phase) => total + (topology.phasesMs[phase]?.p50 ?? 0), 0);
  return [
    tile("Spouts emit", `${number(sum(spouts, "emittedPerSecond"))}/s`),
    tile("Bolts execute", `${number(sum(bolts, "executedPerSecond"))}/s`),
    tile("Waves", number(topology.waves.waves ?? 0), again(topology.waves.rounds_failed ?? 0)),
    tile("Compute, p50", compute.count ? ms(compute.p50) : "–"),
    tile("Checkpoint, p50", compute.count ? ms(checkpoint) : "–"),
    tile("Messages", `${number(stats.acked)} acked`, `${number(stats.failed)} failed`),
    now.isLive && tile("In flight", number(now.messagesInFlight), now.oldestMessageSecs > 0 && `the oldest for ${seconds(now.oldestMessageSecs)}`),
    now.offsetsBehind !== null && tile("Behind the sources", number(now.offsetsBehind), "offsets"),
    now.filesWaiting !== null && tile("Files waiting", number(now.filesWaiting)),
    topology.recovery && tile(`Start ${topology.generation}`, ms(topology.recovery.ms), topology.recovery.action),
    stats.deadLetters > 0 && tile("Dead letters", number(stats.deadLetters)),
  ];
}

function again(rounds) {
  return `${number(rounds)} ${rounds === 1 ? "round" : "rounds"} run again`;
}

// Workers that stay.
function workersCard(workers) {
  return workers.length > 0 && card("Workers",
    table([
      ["Worker", (each) => number(each.slot), true],
      ["Host", (each) => each.host],
      ["Process", (each) => String(each.pid), true],
      ["Up for", (each) => seconds(each.uptimeSeconds), "short"],
      ["Tasks", (each) => number(each.executorsTotal), true],
      ["Cached entries", (each) => number(each.cachedEntries), true],
      ["Waits in memory", (each) => bytes(each.bufferedBytes), true],
      ["Was in files", (each) => bytes(each.spilledBytes), true],
      ["Sent to others", (each) => bytes(each.sentBytes), true],
    ], workers, "Workers"));
}

// Who is blocking now.
function blocking(now, act) {
  const notices = [];
  const say = (kind, ...text) => notices.push(h("p", { class: `notice ${kind}` }, text));
  if (now.failure) say("bad", h("b", {}, `The run failed: ${now.failure.error}. `), h("pre", {}, now.failure.text));
  if (now.status === "INACTIVE") say("warn", h("b", {}, now.pausing ? "Pausing. " : "Paused. "), pauseNotice(now));
  if (!now.ready && ["ACTIVE", "INACTIVE"].includes(now.status)) say("bad", h("b", {}, "Not ready: "), now.reason);
  if (now.status === "STARTING") say("warn", "The topology starts: it checks its store, starts Spark and recovers.");
  for (const each of now.waiting) say("warn", h("b", {}, `Waits for ${each.for}`), ` for ${seconds(each.seconds)}.`);
  if (now.throttled) {
    const by = now.throttledBy ? `: ${now.throttledBy.component}, task ${now.throttledBy.task}` : "";
    const since = now.throttle ? ` for ${seconds(now.throttle.seconds)}` : "";
    say("warn", h("b", {}, `The spouts are throttled${since}${by}. `), now.throttled);
  }
  const wave = now.wave;
  if (wave) {
    const kind = wave.round > 1 || wave.seconds > 10 ? "warn" : "";
    const tasks = wave.tasksTotal ? ` ${number(wave.tasksEnded)} of ${number(wave.tasksTotal)} tasks have ended.` : "";
    say(kind, h("b", {}, `Wave ${wave.txid} runs`), ` for ${seconds(wave.seconds)}: phase ${wave.phase}, round ${wave.round}.${tasks}`);
    if (wave.lastFailure) say("warn", h("b", {}, "The round before failed: "), wave.lastFailure);
    if (wave.seconds > 2 && wave.waitsForTasks.length) {
      const named = wave.waitsForTasks.slice(0, 12).map((each) => `${each.component} ${each.task}`).join(", ");
      const more = wave.waitsForTasksTotal > 12 ? ` and ${wave.waitsForTasksTotal - 12} more` : "";
      say("warn", h("b", {}, "Tasks that have not ended: "), named, more);
    }
  } else if (now.status === "ACTIVE" && !now.waiting.length) say("", "No wave runs: the sources have nothing new.");
  for (const each of now.longCalls.slice(0, 8)) {
    const id = `call-${each.kind}-${each.component}-${each.task}`;
    say("warn", h("b", {}, `${each.kind[0].toUpperCase()}${each.kind.slice(1)} ${each.component}, task ${each.task}, has not returned`),
      ` from ${each.method} for ${seconds(each.seconds)}.`, trace(id, "Where it is", each.stack));
  }
  if (now.losses) say("warn", `${now.losses} losses of executors or of the network in this wave.`);
  if (!now.isLive || ["STOPPED", "FINISHED"].includes(now.status)) say("", `${now.reason[0].toUpperCase()}${now.reason.slice(1)}.`);
  return h("section", { class: "card" },
    h("div", { class: "bar" }, h("h2", {}, "Now"),
      actions(now, act)),
    notices);
}

