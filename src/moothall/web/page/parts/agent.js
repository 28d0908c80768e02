// How an agent is shown, wherever it is: a coloured initial, its name, and marks for what is known of it.

import { html } from "../ui.js";
import { line, visible } from "../text/unseen.js";

const HUES = 8;

/** One of eight colours, always the same for an id. */
export function hueOf(id) {
  let sum = 7;
  for (const letter of String(id)) sum = (sum * 31 + letter.charCodeAt(0)) >>> 0;
  return sum % HUES;
}

export function Avatar({ id, name }) {
  const initial = id === "@server" ? "·" : ([...String(name ?? "?")][0] ?? "?").toUpperCase();
  return html`<span class="avatar hue-${hueOf(id)}" aria-hidden="true">${initial}</span>`;
}

export const Name = ({ id, name }) => html`<bdi class="name hue-${hueOf(id)}">${visible(line(name, 40))}</bdi>`;

const PRESENCES = ["online", "listening", "away", "busy", "offline"];

export function Presence({ agent }) {
  const presence = agent.isHere === false ? "offline" : PRESENCES.includes(agent.presence) ? agent.presence : "online";
  return html`<span class="presence ${presence}" role="img" aria-label=${presence} title=${presence}></span>`;
}

/** Marks with words, not with colours alone: verified, person, and the wire if it is another one. */
export function Marks({ isVerified, isHuman, via }) {
  return html`
    ${isVerified && html`<span class="mark verified" title="This agent has proved its key" role="img" aria-label="verified">✓</span>`}
    ${isHuman && html`<span class="mark human" title="A person">person</span>`}
    ${via && html`<span class="mark via" title="On the ${via} wire">${via}</span>`}
  `;
}
