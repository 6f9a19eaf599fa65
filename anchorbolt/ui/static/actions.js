// The actions on the run: pause, resume, and stop after this wave. The server wants the token for each.

import { h } from "./dom.js";

export function actions(now, act) {
  if (!now.canAct) return null;
  const button = (name, action, text) => h("button", { id: name, type: "button", onclick: () => act(action) }, text);
  const isPaused = now.status === "INACTIVE";
  return (isPaused || now.status === "ACTIVE") && h("span", { class: "choice" },
    isPaused ? button("resume", "activate", "Resume") : button("pause", "deactivate", "Pause"),
    button("stop", "stop", isPaused ? "Stop" : "Stop after this wave"));
}

// What the page says of a pause.
export function pauseNotice(now) {
  if (!now.pausing) return "No wave begins until the run is resumed.";
  const flight = now.messagesInFlight ? `, and ${now.messagesInFlight} in flight` : "";
  return `The sources are asked for no more. What they have given is processed first${flight}.`;
}

export async function perform(action, id, { ask, refresh, trouble }) {
  if (action === "stop" && !confirm(`Stop ${id} after its current wave?`)) return;
  try {
    await ask(`${encodeURIComponent(id)}/${action}`, { method: "POST" });
    refresh();
  } catch (error) {
    if (error.status === 401) location.assign("/login");
    else trouble(error);
  }
}
