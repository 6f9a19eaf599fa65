// What failed: rounds, messages, and the run itself.

import { card, h, link, number, table, tile, time } from "./dom.js";

export const failures = {
  fetch: (route, of) => of("failures"),
  draw({ route, data, now }) {
    const wave = (txid) => h("a", { href: link(route, `waves/${txid}`) }, `wave ${txid}`);
    return [
      h("div", { class: "tiles" },
        tile("Waves run again", number(data.rounds.length), "of those shown"),
        tile("Failed messages", number(data.messages.length), "the latest"),
        tile("Dead letters", number(data.deadLetters))),
      data.run && card("The run failed", h("p", {}, h("b", {}, data.run.error)), h("pre", {}, data.run.text)),
      now.throttled && card("Throttle", h("p", { class: "notice warn" }, now.throttled)),
      card("Rounds that failed", data.rounds.length ? table([
        ["When", (each) => time(each.at)], ["Wave", (each) => wave(each.txid)], ["Rounds", (each) => number(each.rounds), true],
        ["Why", (each) => h("span", { class: "mono" }, each.reasons.join(" · "))],
      ], data.rounds.slice(0, 100), "Failed rounds") : h("p", { class: "quiet" }, "None is known.")),
      data.messages.length > 0 && card("Messages that failed", table([
        ["Wave", (each) => wave(each.txid)], ["Spout", (each) => each.spout], ["Message", (each) => h("span", { class: "mono" }, each.messageId)],
        ["Bolt", (each) => (each.component ? `${each.component}, task ${each.task}` : "–")], ["Why", (each) => each.reason],
      ], data.messages, "Failed messages")),
      data.ends.length > 0 && card("Runs that failed", data.ends.map((each) => h("div", {},
        h("p", {}, h("b", {}, each.error), ` at txid ${each.txid}, ${time(each.at)}`), h("pre", {}, each.text)))),
    ].filter(Boolean);
  },
};
