// The configuration in force, and where each key comes from.

import { card, h, table } from "../dom.js";

let wanted = "";

export const configuration = {
  fetch: (route, of) => of("configuration"),
  draw({ data, now }) {
    const place = h("div", {});
    const fill = () => {
      const keys = data.keys.filter((each) => each.key.includes(wanted) || each.origin.includes(wanted));
      place.replaceChildren(table([
        ["Key", (each) => h("code", {}, each.key)],
        ["Value", (each) => h("code", {}, each.value === null ? "none" : typeof each.value === "string" ? each.value : JSON.stringify(each.value, null, 1))],
        ["From", (each) => (each.origin === "default" ? "default" : h("b", {}, each.origin))],
      ], keys, "Configuration"));
    };
    fill();
    const filter = h("input", { id: "filter", type: "search", value: wanted, placeholder: "part of a key, or default, file, --set", "aria-label": "Filter",
      oninput: (event) => { wanted = event.target.value.trim(); fill(); } });
    return [
      Object.keys(data.facts).length > 0 && card("This run", table([["What", ([name]) => name], ["Value", ([, value]) => value]], Object.entries(data.facts), "Facts")),
      h("section", { class: "card" }, h("div", { class: "bar" }, h("h2", {}, "Configuration"), now.isLive && filter),
        now.isLive ? [place, h("p", { class: "quiet" }, "Secrets are masked.")]
          : h("p", { class: "quiet" }, "The history does not hold the configuration.")),
    ].filter(Boolean);
  },
};
