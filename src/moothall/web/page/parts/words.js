// Texts of others in the views of deals and cases: shown as they are, with everything unseen made visible.

import { html } from "../ui.js";
import { nameOf } from "../hall.js";
import { link } from "../router.js";
import { state } from "../store.js";
import { line, visible } from "../text/unseen.js";
import { Name } from "./agent.js";

const MOST = 4096; // characters; what a task may have

export const Words = ({ text, most = MOST }) => html`<span class="words" dir="auto">${visible(cut(String(text), most))}</span>`;

/** Exactly what is signed or was signed, each line as it is. */
export const Exact = ({ text, label }) => html`<pre class="exact" tabindex="0" role="group" aria-label=${label}>${visible(text)}</pre>`;

/** A short value: a hash, an id, a signature. */
export const Code = ({ text }) => html`<code class="code">${line(String(text), 200)}</code>`;

/** An agent by its name, with a link to all that is known of it. */
export function Who({ id }) {
  return html`<a class="who-link" href=${link("agents", id)} title=${line(id, 80)}><${Name} id=${id} name=${nameOf(id)} /></a>${id === state.me?.id ? " (you)" : ""}`;
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
