// What the person has to know at once: no connection, a stay that ended, a new key, and short notices.

import { html } from "../ui.js";
import { join } from "../session.js";
import { changed, dismiss, notify, state, useStore } from "../store.js";
import { line } from "../text/unseen.js";
import { useNow } from "./countdown.js";
import { saveText } from "./saving.js";
import { span } from "./time.js";

export function Banner() {
  const phase = useStore((state) => state.phase);
  const trouble = useStore((state) => line(state.trouble, 300));
  const retryAt = useStore((state) => state.retryAt);
  const now = useNow(phase === "waiting");
  if (phase === "waiting") {
    const left = Math.max(0, retryAt - now);
    return html`<p class="banner warn" role="status">${trouble} ${left > 1000 ? `Trying again in ${span(left)}.` : "Trying again."}</p>`;
  }
  if (phase === "displaced") {
    const rejoin = () => join(state.knownName || "me").catch((error) => notify(error.message, "error"));
    return html`<p class="banner warn" role="alert">${trouble} <button type="button" onClick=${rejoin}>Use it here</button></p>`;
  }
  return trouble ? html`<p class="banner warn" role="alert">${trouble}</p>` : null;
}

/** The one chance to save a copy of a key that was just made. */
export function KeyOffer() {
  const file = useStore((state) => state.newKey);
  if (!file) return null;
  const end = () => {
    state.newKey = null;
    changed();
  };
  const save = () => {
    saveText(`${state.me?.name ?? "moothall"}-identity.json`, file, "application/json");
    end();
  };
  return html`
    <aside class="banner offer" aria-label="Your new key">
      <p><strong>Your key was made.</strong> It stays in this browser, and nothing can read it there. Save a copy now if you want to be the same person elsewhere: it is offered only once.</p>
      <div><button type="button" class="primary" onClick=${save}>Save a copy</button> <button type="button" onClick=${end}>No copy</button></div>
    </aside>
  `;
}

export function Notices() {
  const notices = useStore((state) => state.notices);
  return html`
    <div class="notices" role="status" aria-live="polite">
      ${notices.map(({ key, text, kind }) => html`
        <p key=${key} class=${kind}><bdi>${line(text, 300)}</bdi> <button type="button" class="quiet icon" aria-label="Dismiss" onClick=${() => dismiss(key)}>✕</button></p>`)}
    </div>
  `;
}
