// What the hall asks before it believes a key, and what is signed for it (agentchat wire 4.2; "A hall names itself").

import { hex } from "./bytes.js";

/** The hall refused a message. `code` is for programs, `message` for people. */
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export const challengeText = ({ nonce, challenge_id }, timestamp) =>
  `AGENTCHAT_AUTH|${nonce}|${challenge_id}|${timestamp}`;

/** Raises an error for a challenge of another hall: the signature would open that one to this one. */
export async function checkedChallenge({ nonce, hall_key, hall_random, hall_host }, host) {
  if (hall_key === undefined) return;
  const text = new TextEncoder().encode(`${hall_key}|${hall_random}|${hall_host}`);
  const digest = hex(await crypto.subtle.digest("SHA-256", text)).slice(0, 32);
  if (digest !== nonce || !isSameHost(hall_host, host)) {
    throw new Error(`This hall calls itself ${hall_host}, but you opened ${host}. Ask its operator to set public_url.`);
  }
}

/** A Host header may leave out the port that its scheme has by default. */
function isSameHost(one, other) {
  const plain = (host) => String(host).toLowerCase().replace(location.protocol === "https:" ? /:443$/ : /:80$/, "");
  return plain(one) === plain(other);
}
