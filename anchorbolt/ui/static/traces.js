// Tracebacks and stacks, which open on a click and stay open when the view is drawn again.

import { h } from "./dom.js";

const opened = new Set();

export function trace(id, label, text) {
  if (!text) return "";
  const toggle = (event) => (event.target.open ? opened.add(id) : opened.delete(id));
  return h("details", { open: opened.has(id), ontoggle: toggle }, h("summary", { id: `trace-${id}` }, label), h("pre", {}, text));
}
