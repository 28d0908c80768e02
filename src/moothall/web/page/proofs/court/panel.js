// Checks the panel of a case from its file: the pool, the draw, replacements, and what became of each arbiter. Pure.

import { PublicKey } from "../keys.js";
import { fromHex } from "../proof.js";
import { MOST_POOL, PANEL_SIZE, drawReplacement, poolHashOf, shuffled } from "./draw.js";

const FORMAT = 2;
const POSSIBLE = {
  reveal_pending: [],
  arbiter_response: ["pending", "accepted", "declined"],
  evidence: ["accepted", "declined"],
  deliberation: ["accepted", "declined", "voted"],
  resolved: ["declined", "voted", "forfeited"],
  fallback: ["pending", "accepted", "declined", "forfeited"],
};

export const count = (items, fits) => items.filter(fits).length;
export const isSameList = (one, other) => one.length === other.length && one.every((item, place) => item === other[place]);

/** True if the case fell back because an arbiter that declined could not be replaced. */
export const isUnreplaced = ({ phase, arbiters }) =>
  phase === "fallback" && count(arbiters, ({ status }) => status === "declined") > arbiters.length - PANEL_SIZE;

/** `keys` are those of the arbiters, in their order. */
export async function checkPanel(file, keys, proof) {
  await checkDraw(file, keys, proof);
  const barred = new Set([file.disputant.id, file.respondent.id]); // from the pool of the next replacement
  for (const [number, arbiter] of file.arbiters.entries()) {
    await checkSlot(file, number, barred, proof);
    barred.add(arbiter.id);
    checkStatus(file.phase, `arbiters[${number}]`, arbiter, proof);
  }
}

async function checkDraw(file, keys, proof) {
  const { seed, pool, pool_hash: poolHash, arbiters } = file;
  proof.claim("pool_hash", (poolHash !== null) === (file.format === FORMAT), "There is a hash of the pool, except in cases of the old format");
  if (seed === null || pool === null) {
    proof.claim("seed", file.reveal === null, "There is a seed and a pool since the nonce was revealed");
    return;
  }
  checkPool("pool", pool, new Set([file.disputant.id, file.respondent.id]), proof);
  if (poolHash !== null) await checkCommitted(file, keys, proof);
  checkWalk(file, await shuffled(seed, pool), proof);
  const declines = count(arbiters, ({ status }) => status === "declined");
  // The last decline is not replaced when no agent is left, and then there is a fallback.
  const missing = declines - Math.max(0, arbiters.length - PANEL_SIZE);
  proof.claim("arbiters", missing === 0 || (missing === 1 && file.phase === "fallback"), "Each arbiter that declined was replaced, or no agent was left");
}

function checkPool(field, pool, barred, proof) {
  proof.claim(field, isSameList(pool, [...new Set(pool)].sort()), "The pool is sorted and names each agent once");
  proof.claim(field, !pool.some((each) => barred.has(each)), "The pool has neither a party nor an arbiter from before");
}

async function checkCommitted({ pool, pool_hash: poolHash, pool_keys: poolKeys, arbiters }, keys, proof) {
  const held = await Promise.all((poolKeys ?? []).map((text) => (/^[0-9a-fA-F]{64}$/.test(text) ? PublicKey.of(fromHex(text)) : undefined)));
  proof.claim("pool", pool.length <= MOST_POOL, `The pool has at most ${MOST_POOL} agents`);
  proof.claim("pool_hash", poolHash === (await poolHashOf(pool)), "The hash is that of the pool");
  proof.claim(
    "pool_keys",
    held.length === pool.length && pool.every((each, place) => held[place]?.hasId(each)),
    "The ids in the pool are those of its keys",
  );
  const byId = new Map(pool.map((each, place) => [each, held[place]]));
  proof.claim("arbiters", arbiters.every(({ id }, place) => keys[place].equals(byId.get(id))), "The arbiters have the keys that the pool names");
}

/** Seats go down the order to those that were not passed over. Replacements with a pool of their own come later. */
function checkWalk(file, order, proof) {
  const drawn = file.arbiters.filter(({ pool }) => pool === null).map(({ id }) => id);
  const skipped = file.skipped.map(({ id }) => id);
  const passedOver = new Set(skipped);
  const others = new Set(file.arbiters.filter(({ pool }) => pool !== null).map(({ id }) => id));
  proof.claim(
    "skipped",
    isSameList(skipped, order.filter((each) => passedOver.has(each))) && !skipped.some((each) => others.has(each)),
    "The agents that were passed over are of the pool, in the order of the draw",
  );
  const free = order.filter((each) => !passedOver.has(each) && !others.has(each));
  proof.claim("arbiters", isSameList(drawn, free.slice(0, drawn.length)), "The seed and the pool give the arbiters");
  if (isExhausted(file, free.length - drawn.length, proof)) return;
  const last = Math.max(0, order.indexOf(drawn.at(-1)));
  proof.claim("skipped", !order.slice(last).some((each) => passedOver.has(each)), "No agent was passed over after the last arbiter was found");
}

/** The walk went to the end of the pool, because there were fewer than it needed. */
function isExhausted(file, left, proof) {
  if (!file.arbiters.length) {
    return proof.claim(
      "arbiters",
      file.phase === "fallback" && left < PANEL_SIZE,
      `No panel was drawn, because fewer than ${PANEL_SIZE} agents of the pool were eligible`,
    );
  }
  if (!isUnreplaced(file)) return false;
  // Of an old case the file does not say which agents were eligible then.
  return file.format !== FORMAT || proof.claim("arbiters", left === 0, "The last arbiter that declined was not replaced, because no agent was left");
}

async function checkSlot(file, number, barred, proof) {
  const arbiter = file.arbiters[number];
  const field = `arbiters[${number}]`;
  const replaces = number >= PANEL_SIZE;
  proof.claim(`${field}.is_replacement`, arbiter.is_replacement === replaces, `${arbiter.id} ${replaces ? "is a replacement" : "is of the first panel"}`);
  if (arbiter.pool === null) return;
  proof.claim(`${field}.pool`, replaces && file.format !== FORMAT, `${arbiter.id} replaced an arbiter in a case of the old format`);
  checkPool(`${field}.pool`, arbiter.pool, barred, proof);
  proof.claim(
    `${field}.pool`,
    file.seed !== null && (await drawReplacement(file.seed, number, arbiter.pool)) === arbiter.id,
    `The seed and its pool give ${arbiter.id}`,
  );
}

function checkStatus(phase, field, arbiter, proof) {
  const accepted = arbiter.accepted !== null;
  const declined = arbiter.declined !== null;
  const voted = arbiter.vote !== null;
  const said = {
    pending: !accepted && !declined && !voted,
    accepted: accepted && !declined && !voted,
    declined: declined && !accepted && !voted,
    voted: accepted && !declined && (voted || phase === "deliberation"), // a vote is not shown before the verdict
    forfeited: !declined && !voted && accepted === (phase === "resolved"),
  };
  proof.claim(`${field}.status`, said[arbiter.status] && POSSIBLE[phase].includes(arbiter.status), `${arbiter.id} did what its status says`);
}
