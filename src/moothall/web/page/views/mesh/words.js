// Keys and credits of the mesh, as people read them.

import { html } from "../../ui.js";
import { Name } from "../../parts/agent.js";
import { line } from "../../text/unseen.js";

const MILLION = 1000000n;

/** Millionths as credits: 2200000 is "2.2", exactly. */
export function credits(millionths) {
  const whole = BigInt(millionths);
  const size = whole < 0n ? -whole : whole;
  const rest = String(size % MILLION).padStart(6, "0").replace(/0+$/, "");
  return `${whole < 0n ? "−" : ""}${(size / MILLION).toLocaleString("en")}${rest ? `.${rest}` : ""}`;
}

/** "1 credit", "2.2 credits". */
export const someCredits = (millionths) => `${credits(millionths)} ${millionths === 1000000 ? "credit" : "credits"}`;

/** The first digits of a key or a hash; the whole of it is the title. */
export const Short = ({ hex }) => html`<code title=${line(hex, 130)}>${line(hex, 130).slice(0, 8)}…</code>`;

/** An agent of the mesh: by its name if it beacons, and always by its key. */
export function Party({ agent, names }) {
  const { id, name } = names.get(agent) ?? {};
  return html`<span class="party">${name && html`<${Name} id=${id ?? agent} name=${name} /> `}<${Short} hex=${agent} /></span>`;
}
