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
        ["When", (each) => time(each.at), "short"], ["Wave", (each) => wave(each.txid), "short"], ["Rounds", (each) => number(each.rounds), true],
        ["Why", (each) => reasons(each.reasons), "long"],
      ], data.rounds.slice(0, 100), "Failed rounds") : h("p", { class: "quiet" }, "None is known.")),
      data.messages.length > 0 && card("Messages that failed", table([
        ["Wave", (each) => wave(each.txid), "short"], ["Spout", (each) => each.spout], ["Message", (each) => h("span", { class: "mono" }, each.messageId)],
        ["Bolt", (each) => (each.component ? `${each.component}, task ${each.task}` : "–")], ["Why", (each) => each.reason, "long"],
      ], data.messages, "Failed messages")),
      data.ends.length > 0 && card("Runs that failed", data.ends.map((each) => h("div", {},
        h("p", {}, h("b", {}, each.error), ` at txid ${each.txid}, ${time(each.at)}`), h("pre", {}, each.text)))),
    ].filter(Boolean);
  },
};

// Each reason once, with how often it was given.
function reasons(texts) {
  const times = new Map();
  for (const text of texts) times.set(text, (times.get(text) ?? 0) + 1);
  return h("ul", { class: "reasons mono" }, [...times].map(([text, count]) => h("li", {}, count > 1 ? `${count} times: ${text}` : text)));
}
