// What failed: dead letters, rounds, messages, and the run itself.

import { card, h, link, number, table, tile, time } from "../dom.js";
import { trace } from "../traces.js";

const SHOWN = 30; // of each table; the REST API has more

export const failures = {
  fetch: (route, of) => of("failures"),
  draw({ route, data, now }) {
    const wave = (txid) => h("a", { href: link(route, `waves/${txid}`) }, `wave ${txid}`);
    const timedOut = data.timedOut.reduce((total, each) => total + each.messages, 0);
    return [
      h("div", { class: "tiles" },
        tile("Waves with failed rounds", number(data.rounds.length), "the latest"),
        now.isLive && tile("Failed messages", number(data.messages.length), "the latest"),
        timedOut > 0 && tile("Timed out", number(timedOut), "messages"),
        tile("Dead letters", number(data.deadLetters))),
      data.run && card("The run failed", h("p", {}, h("b", {}, data.run.error)), h("pre", {}, data.run.text)),
      data.letters.length > 0 && card("Dead letters", table([
        ["When", (each) => time(each.at), "short"], ["Wave", (each) => wave(each.txid), "short"], ["Spout", (each) => each.spout],
        ["Message", (each) => (each.message ? h("span", { class: "mono" }, each.message) : "")],
        ["Bolt", who], ["Tries", (each) => number(each.tries), true],
        ["Why", (each) => [each.reason, trace(`letter-${each.at}-${each.spout}-${each.message}`, "Traceback", each.traceback)], "wide"],
      ], data.letters.slice(0, SHOWN), "Dead letters"),
      h("p", { class: "quiet" }, data.deadLetters > SHOWN && `The latest ${SHOWN}. `, "The values are not shown here: anchorbolt dead-letters list prints them.")),
      card("Rounds that failed", data.rounds.length ? table([
        ["When", (each) => time(each.at), "short"], ["Wave", (each) => wave(each.txid), "short"], ["Rounds", (each) => number(each.rounds), true],
        ["Bolt", who],
        ["Why", (each) => [reasons(each.reasons), trace(`round-${each.txid}`, "Traceback", each.traceback)], "wide"],
      ], data.rounds.slice(0, SHOWN), "Failed rounds") : h("p", { class: "quiet" }, "None is known.")),
      data.timedOut.length > 0 && card("Messages that timed out, by the task that held a tuple of them last", table([
        ["Spout", (each) => each.spout], ["Task", who], ["Messages", (each) => number(each.messages), true],
      ], data.timedOut, "Messages that timed out")),
      data.messages.length > 0 && card("Messages that failed", table([
        ["Wave", (each) => wave(each.txid), "short"], ["Spout", (each) => each.spout], ["Message", (each) => h("span", { class: "mono" }, each.messageId)],
        ["Bolt", (each) => (each.timedOut ? h("span", {}, who(each), h("span", { class: "quiet" }, " held it last")) : who(each))],
        ["Why", (each) => each.reason, "wide"],
      ], data.messages.slice(0, SHOWN), "Failed messages"),
      h("p", { class: "quiet" }, now.isLive ? "Of each wave of an earlier driver, only the first five." : "Of each wave, only the first five.")),
      data.ends.length > 0 && card("Runs that failed", data.ends.map((each) => h("div", {},
        h("p", {}, h("b", {}, each.error), ` at txid ${each.txid}, ${time(each.at)}`), h("pre", {}, each.text)))),
    ].filter(Boolean);
  },
};

function who(each) {
  return each.component ? `${each.component}, task ${each.task}` : "–";
}

// Each reason once, with how often it was given.
function reasons(texts) {
  const times = new Map();
  for (const text of texts) times.set(text, (times.get(text) ?? 0) + 1);
  return h("ul", { class: "reasons mono" }, [...times].map(([text, count]) => h("li", {}, count > 1 ? `${count} times: ${text}` : text)));
}
