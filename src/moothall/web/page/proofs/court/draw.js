// The lot: a chain of hashes shuffles the pool, so that anyone can draw the panel again (agentchat wire 13.3). Pure.

import { hashOf } from "../texts.js";

export const PANEL_SIZE = 3;
export const MOST_POOL = 100;

/** The nonce is hashed as text, whatever it looks like. */
export const commitmentOf = (nonce) => hashOf(nonce);
export const seedOf = (proposalId, nonce, serverNonce) => hashOf(proposalId + nonce + serverNonce);
export const poolHashOf = (pool) => hashOf(pool.join(","));

export async function shuffled(seed, pool) {
  const order = [...pool];
  let state = seed;
  for (let last = order.length - 1; last > 0; last--) {
    state = await hashOf(state);
    const chosen = parseInt(state.slice(0, 8), 16) % (last + 1);
    [order[last], order[chosen]] = [order[chosen], order[last]];
  }
  return order;
}

/** How an arbiter was replaced in cases of the old format: from a pool of that moment. */
export const drawReplacement = async (seed, number, pool) => (await shuffled(await hashOf(`${seed}:${number}`), pool))[0];

/** The hash of an item of evidence: its sorted keys also pick the members of objects inside it (agentchat wire 13.5). */
export const itemHash = (item) => hashOf(JSON.stringify(item, Object.keys(item).sort()));
