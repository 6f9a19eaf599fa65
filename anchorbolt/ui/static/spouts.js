// What holds the rich spouts back: back pressure, and the limit of pending messages.

import { card, h, number, seconds, table } from "./dom.js";

export function spoutsCard(now) {
  const throttle = now.throttle;
  if (!throttle) return null;
  const held = throttle.windowSeconds > 0
    ? `${seconds(throttle.windowSeconds)} of the last ${seconds(throttle.ofSeconds)} (${share(throttle)} %).`
    : `never in the last ${seconds(throttle.ofSeconds)}.`;
  return card("What holds the spouts",
    h("p", {}, h("b", {}, "Back pressure: "), throttle.reason ? `now, for ${seconds(throttle.seconds)}; ` : "not now; ", held),
    table([
      ["Spout", (each) => each.spout],
      ["Messages in flight", (each) => number(each.messagesInFlight), true],
      ["topology.max.spout.pending", (each) => (each.most === null ? "no limit" : `${number(each.most)} in all tasks`), true],
      ["Tasks at the limit", (each) => (each.most === null ? "" : number(each.tasksHeld)), true],
    ], throttle.spouts, "Messages of spouts"));
}

function share(throttle) {
  return Math.round((100 * throttle.windowSeconds) / Math.max(throttle.ofSeconds, 0.1));
}
