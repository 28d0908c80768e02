// What the file of a case has to look like before anything in it is checked. Pure.

import { hasHalf } from "../canonical.js";

const MOST_EVIDENCE = 256 * 1024; // values, and bytes of JSON
const MOST_LEVELS = 64;
const MOST_ID = 256;
const MOST_WHOLE = 2 ** 53;

export const PHASES = ["reveal_pending", "arbiter_response", "evidence", "deliberation", "resolved", "fallback"];
export const VERDICTS = ["disputant", "respondent", "mutual"];
const SLOTS = ["pending", "accepted", "declined", "forfeited", "voted"];

// A rule takes a value and where it is; it returns the value as it is to be read, or raises an error.

const rule = (words, fits) => (value, where) => {
  if (!fits(value)) throw new Error(`\`${where}\` has to be ${words}`);
  return value;
};
const text = rule("a text", (value) => typeof value === "string");
const someText = rule("a text that is not empty", (value) => typeof value === "string" && value !== "");
const anId = rule("an id", (value) => typeof value === "string" && value !== "" && [...value].length <= MOST_ID);
const address = rule("an id with @", (value) => typeof value === "string" && /^@./.test(value) && [...value].length <= MOST_ID);
const truth = rule("true or false", (value) => typeof value === "boolean");
const number = rule("a number", (value) => typeof value === "number");
const whole = rule("a whole number", (value) => Number.isInteger(value) && Math.abs(value) <= MOST_WHOLE);
const scalar = rule("a text, a number or a truth value", (value) => ["string", "number", "boolean"].includes(typeof value));
const stake = rule("a whole number", (value) => Number.isInteger(value) && value >= 0);
const atLeast = (least) => rule(`a whole number from ${least}`, (value) => Number.isInteger(value) && value >= least && value <= MOST_WHOLE);
const oneOf = (...words) => rule(`one of ${words.join(", ")}`, (value) => words.includes(value));
const anything = (value) => value;
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const object = rule("an object", isObject);
const orNull = (inner) => (value, where) => (value === null ? null : inner(value, where));
const listOf = (inner) => (value, where) => {
  if (!Array.isArray(value)) throw new Error(`\`${where}\` has to be a list`);
  return value.map((item, place) => inner(item, `${where}[${place}]`));
};
/** A member that may be missing, and what stands for it then. */
const optional = (inner, ...fallback) => Object.assign((value, where) => inner(value, where), { fallback: fallback.length ? fallback[0] : null, isOptional: true });

const members = (rules) => (value, where) => {
  object(value, where || "the file");
  const read = {};
  for (const [name, inner] of Object.entries(rules)) {
    const place = where ? `${where}.${name}` : name;
    if (Object.hasOwn(value, name)) read[name] = inner(value[name], place);
    else if (inner.isOptional) read[name] = inner.fallback;
    else throw new Error(`\`${place}\` is missing`);
  }
  return read;
};

const person = members({ id: text, key: text });
const ref = optional(orNull(rule("a short text", (value) => typeof value === "string" && [...value].length <= MOST_ID)));
const proposal = members({
  type: optional(oneOf("PROPOSAL"), "PROPOSAL"), ref, to: address, task: someText, amount: optional(orNull(scalar)), currency: optional(orNull(scalar)),
  payment_code: optional(orNull(scalar)), terms: optional(anything), capability: optional(orNull(text)), expires: optional(number, undefined),
  elo_stake: optional(orNull(stake)), sig: someText, key: text, signed: optional(text, undefined),
});
const accept = members({
  type: optional(oneOf("ACCEPT"), "ACCEPT"), ref, proposal_id: anId, payment_code: optional(orNull(scalar)), elo_stake: optional(orNull(stake)),
  sig: someText, key: text, signed: optional(text, undefined),
});
const evidence = orNull(members({ items: listOf(object), hashes: listOf(text), statement: text, sig: text, at: whole }));
const arbiter = members({
  id: text, key: text, status: oneOf(...SLOTS), is_replacement: truth, pool: orNull(listOf(text)), assigned_at: whole,
  accepted: orNull(members({ sig: text, at: whole })),
  declined: orNull(members({ reason: orNull(scalar), sig: orNull(text), at: whole })),
  vote: orNull(members({ verdict: oneOf(...VERDICTS), reasoning: text, sig: text, at: whole })),
});
const share = members({
  agent: text, rating_before: whole, earned: whole, staked: whole, awarded: whole, rating_after: whole, withheld: optional(whole, 0),
});
const settlement = members({
  shares: listOf(share),
  stakes: members({ disputant: whole, respondent: whole, settlement: oneOf("transferred", "burned"), to: orNull(text), amount: whole, burned: optional(whole, 0) }),
  transfer: optional(orNull(members({
    due: whole, paid: whole, left: optional(orNull(atLeast(0))), nth: optional(atLeast(1), 1), room: optional(orNull(atLeast(0))),
  }))),
});
const caseFile = members({
  format: oneOf(1, 2), dispute_id: text, proposal_id: text, phase: oneOf(...PHASES), filed_at: whole, deadline: orNull(whole),
  disputant: person, respondent: person,
  deal: members({ from: text, to: text, proposal, accept, terms: optional(anything), capability: optional(orNull(text)), created_at: optional(orNull(whole)) }),
  reason: text, commitment: text, intent_sig: text, server_nonce: text, reveal: orNull(members({ nonce: text, sig: text, at: whole })), seed: orNull(text),
  pool: orNull(listOf(text)), pool_keys: orNull(listOf(text)), pool_hash: orNull(text), arbiters: listOf(arbiter),
  skipped: listOf(members({ id: text, why: oneOf("absent", "not_eligible"), at: whole })),
  evidence: members({ disputant: evidence, respondent: evidence }),
  fallback: orNull(members({ reason: text, at: whole })),
  judgement: orNull(members({ verdict: oneOf(...VERDICTS), votes: listOf(text), results: listOf(members({ arbiter: text, verdict: orNull(oneOf(...VERDICTS)), reward: whole })), at: whole })),
  settlement: orNull(settlement), hall_key: optional(orNull(text)), hall_sig: optional(orNull(text)),
});

/** The case in a value that came out of a JSON parser. Raises an error that says what is wrong with it. */
export function readCase(value) {
  const old = isObject(value) && value.format === 1 ? { pool_keys: null, pool_hash: null, skipped: [] } : {};
  const read = caseFile(isObject(value) ? { ...old, ...value } : value, "");
  for (const side of [read.evidence.disputant, read.evidence.respondent]) if (side) requireBounded(side.items);
  return read;
}

/** Before anything is hashed: the file may be a stranger's. */
function requireBounded(items) {
  let level = [items];
  let found = 0;
  for (let depth = 0; level.length; depth++) {
    if (depth === MOST_LEVELS) throw new Error(`\`evidence\` is nested more than ${MOST_LEVELS} levels deep`);
    const below = [];
    for (const each of level) {
      if (each === null || typeof each !== "object") continue;
      const inside = Object.values(each);
      found += inside.length;
      if (found > MOST_EVIDENCE) throw new Error(`\`evidence\` holds more than ${MOST_EVIDENCE} values`);
      for (const member of inside) below.push(member);
    }
    level = below;
  }
  const json = JSON.stringify(items);
  if (/(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(json) || hasHalf(json)) throw new Error("A text holds a lone surrogate");
  if (/(?<!\\)(?:\\\\)*\\u0000/.test(json)) throw new Error("A text holds the character NUL");
  if (new TextEncoder().encode(json).length > MOST_EVIDENCE) {
    throw new Error(`\`evidence\` has more than ${MOST_EVIDENCE} bytes of JSON, with all numbers written out`);
  }
}
