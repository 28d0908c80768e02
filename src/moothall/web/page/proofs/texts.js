// The texts that agents sign (agentchat wire 8): joined with `|`, nothing escaped. Pure.

import { sha256 } from "../bytes.js";

const utf8 = (text) => new TextEncoder().encode(text);

/** The SHA-256 of a text, in hex. Halves of characters count as U+FFFD, as the wire has it. */
export const hashOf = (text) => sha256(utf8(text));

/** A falsy value contributes nothing (agentchat wire 2.7). */
const optional = (value) => String(value || "");

const TEXTS = {
  PROPOSAL: ({ to, task, amount, currency, payment_code, expires, elo_stake }) =>
    [to, task, ...[amount, currency, payment_code, expires, elo_stake].map(optional)].join("|"),
  ACCEPT: ({ proposal_id, payment_code, elo_stake }) => `ACCEPT|${proposal_id}|${optional(payment_code)}|${optional(elo_stake)}`,
  REJECT: ({ proposal_id, reason }) => `REJECT|${proposal_id}|${optional(reason)}`,
  COMPLETE: ({ proposal_id, proof }) => `COMPLETE|${proposal_id}|${optional(proof)}`,
  DISPUTE: ({ proposal_id, reason }) => `DISPUTE|${proposal_id}|${reason}`,
  DISPUTE_INTENT: ({ proposal_id, reason, commitment }) => `DISPUTE_INTENT|${proposal_id}|${reason}|${commitment}`,
  DISPUTE_REVEAL: ({ proposal_id, nonce }) => `DISPUTE_REVEAL|${proposal_id}|${nonce}`,
  EVIDENCE: async ({ dispute_id, items }) => `EVIDENCE|${dispute_id}|${await hashOf(JSON.stringify(items))}`,
  ARBITER_ACCEPT: ({ dispute_id }) => `ARBITER_ACCEPT|${dispute_id}`,
  ARBITER_DECLINE: ({ dispute_id, reason }) => `ARBITER_DECLINE|${dispute_id}|${optional(reason)}`,
  ARBITER_VOTE: ({ dispute_id, verdict }) => `VOTE|${dispute_id}|${verdict}`,
};

/** Bars that join the fields of each text. One that has more holds a bar in a field. */
const BARS = {
  PROPOSAL: 6, ACCEPT: 3, COMPLETE: 2, DISPUTE_INTENT: 3, DISPUTE_REVEAL: 2, EVIDENCE: 2, ARBITER_ACCEPT: 1, ARBITER_DECLINE: 2, ARBITER_VOTE: 2,
};

/** What the signature of a message covers. */
export const textOf = async (type, fields) => TEXTS[type](fields);

export const hasBars = (type, text) => text.split("|").length - 1 > BARS[type];
