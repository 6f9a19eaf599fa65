// The history of checkpoints, and one wave with its tasks.

import { bytes, card, h, link, ms, number, table, tile, time } from "../dom.js";
import { PHASES, phaseLegend, waveChart } from "../chart.js";

export const waves = {
  fetch(route, of) {
    if (route.path[1]) return of(`waves/${encodeURIComponent(route.path[1])}`);
    return of(`waves?last=300${route.parameters.get("failed") ? "&failed=1" : ""}`);
  },
  draw(page) {
    return page.route.path[1] ? one(page) : all(page);
  },
};

function all({ route, data, room }) {
  const failed = route.parameters.get("failed");
  const committed = data.waves.filter((each) => each.kind === "wave");
  const shown = committed.slice(0, Math.max(30, Math.floor(room / 6))).reverse();
  const choice = (label, value) => h("a", {
    href: link(route, "waves", { failed: value }), id: `failed-${value}`, "aria-current": (failed ?? null) === value ? "true" : null,
  }, label);
  return [
    h("section", { class: "card" },
      h("div", { class: "bar" }, h("h2", {}, "Time of each wave, by phase"),
        h("span", { class: "choice", role: "group", "aria-label": "Waves" }, choice("all", null), choice("only failed", "1"))),
      waveChart(shown, route, room, 220), phaseLegend(),
      h("p", { class: "quiet" }, "A dot marks a wave that needed several rounds. A bar with a gap is longer than it is drawn. A bar opens its wave.")),
    card("Newest first", table([
      ["When", (each) => time(each.at), "short"],
      ["What", (each) => what(each, route), "short"],
      ["Time", (each) => (each.kind === "wave" ? ms(each.total_ms) : ""), true],
      ["Checkpoint", (each) => (each.kind === "wave" ? ms(checkpoint(each)) : ""), true],
      ["Executed", (each) => (each.kind === "wave" ? number(sum(each.executed)) : ""), true],
      ["Keys staged", (each) => (each.kind === "wave" ? number(each.keys_staged) : ""), true],
      ["Rounds", (each) => (each.kind === "wave" ? number(each.rounds) : ""), true],
      ["Why", (each) => each.failures?.[0] ?? why(each), "wide"],
    ], data.waves.slice(0, 100), "Waves, starts, ends and changes")),
  ];
}

// Why a wave without a failed round is worth a look.
function why(record) {
  const first = record.messages?.[0] ?? record.letters?.[0];
  if (first) return reason(first);
  return record.throttled ? `throttled: ${record.throttled}` : "";
}

function reason(each) {
  return each.component && !each.timed_out ? `bolt ${each.component}, task ${each.task}: ${each.reason}` : each.reason;
}

function what(record, route) {
  if (record.kind === "wave") return h("a", { href: link(route, `waves/${record.txid}`), id: `wave-${record.txid}` }, `wave ${record.txid}`);
  if (record.kind === "start") return `start: generation ${record.generation} ${record.action ?? ""}`;
  if (record.kind === "change") return h("span", {}, `${record.command} by ${record.by}`);
  return h("span", {}, `end: ${(record.status ?? "").toLowerCase()}${record.error ? `, ${record.error}` : ""}`);
}

function one({ route, data: wave }) {
  const triple = (values, show) => (values ? values.map(show).join(" / ") : "–");
  const rows = Object.entries(wave.tasks ?? {}).map(([component, spread]) => ({ component, ...spread }));
  rows.sort((a, b) => (a.start_ms?.[1] ?? 0) - (b.start_ms?.[1] ?? 0)); // as the tuples went
  return [
    h("p", {}, h("a", { href: link(route, "waves") }, "← All checkpoints")),
    h("h2", {}, `Wave ${wave.txid}, ${time(wave.at)}`),
    h("div", { class: "tiles" },
      tile("All phases", ms(wave.total_ms)),
      PHASES.map((phase) => tile(phase, ms(wave.phases_ms?.[phase] ?? 0))),
      tile("Rounds", number(wave.rounds), wave.losses ? `${wave.losses} losses` : null),
      tile("Shuffled", bytes(wave.bytes_shuffled)),
      tile("Keys read", number(wave.keys_read), `${number(wave.keys_staged)} staged, ${bytes(wave.bytes_staged)}`),
      tile("Messages acked", number(wave.acked), `${number(wave.failed)} failed`)),
    wave.failures?.length > 0 && card("Why rounds failed", wave.failures.map((text) => h("p", { class: "notice bad" }, text))),
    wave.messages?.length > 0 && card("Messages that failed, the first five", wave.messages.map((each) => h("p", { class: "notice bad" },
      `${each.spout} ${each.message}: ${reason(each)}`))),
    wave.throttled && card("Throttled", h("p", { class: "notice warn" }, wave.throttled)),
    card("Its tasks: least / median / most", rows.length ? table([
      ["Component", (each) => h("a", { href: link(route, `components/${encodeURIComponent(each.component)}`) }, each.component)],
      ["Tasks", (each) => number(each.tasks), true],
      ["Start", (each) => triple(each.start_ms, ms), true],
      ["Aligned", (each) => triple(each.aligned_ms, ms), true],
      ["Execute", (each) => triple(each.execute_ms, ms), true],
      ["Prepare", (each) => triple(each.prepare_ms, ms), true],
      ["Stage", (each) => triple(each.stage_ms, ms), true],
      ["Seal", (each) => triple(each.seal_ms, ms), true],
      ["Executed", (each) => triple(each.executed, number), true],
      ["Staged", (each) => triple(each.bytes_staged, bytes), true],
    ], rows, "Tasks of the wave") : h("p", { class: "quiet" }, "Not kept for a topology of so many components.")),
  ].filter(Boolean);
}

function sum(byComponent) {
  return Object.values(byComponent ?? {}).reduce((total, each) => total + each, 0);
}

function checkpoint(wave) {
  return ["prepare", "decide", "commit"].reduce((total, phase) => total + (wave.phases_ms?.[phase] ?? 0), 0);
}
