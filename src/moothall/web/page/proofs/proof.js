// What a record proves, and on whose word the rest is to be believed. Pure; the same words as `moothall court verify`.

import { canonicalJson } from "./canonical.js";
import { PublicKey } from "./keys.js";
import { hasBars, hashOf } from "./texts.js";

const KEY_ID_DIGITS = 32;

/** A key, short enough to compare and too long to be forged. */
export const keyId = (key) => key.id.slice(0, KEY_ID_DIGITS);

const within = (sentence) => sentence.slice(0, 1).toLowerCase() + sentence.slice(1);

/**
 * The result of a check. Each list holds sentences.
 *
 * steps           the message types that parties and arbiters signed
 * proven          what their signatures prove, whatever the hall says
 * consistent      what was computed again and fits the rest of the record
 * hallWord        what no party signed: it is worth as much as the word of the hall that signed the record
 * contradictions  what does not fit
 * unproven        why the hall's word does not count here
 */
export class Proof {
  steps = [];
  proven = [];
  consistent = [];
  hallWord = [];
  contradictions = [];
  unproven = [];

  get holds() {
    return this.contradictions.length + this.unproven.length === 0;
  }

  /** Note that the sentence is true, or that this member of the record is wrong. Returns which. */
  claim(where, holds, sentence) {
    if (holds) this.consistent.push(`${sentence}.`);
    else this.contradictions.push(`\`${where}\`: it does not hold that ${within(sentence)}.`);
    return holds;
  }

  /** Note that the key signed the text of this message type, or that it did not. */
  async signed(where, type, key, text, sig, sentence) {
    if (!(await key.verifies(text, sig))) {
      this.contradictions.push(`\`${where}\`: it does not hold that ${within(sentence)}.`);
      return;
    }
    this.steps.push(type);
    this.proven.push(`${sentence} (key ${keyId(key)}).`);
    if (hasBars(type, text)) {
      this.hallWord.push(`Where the fields of the ${type} begin and end: one of them holds \`|\`, and only the joined text is signed.`);
    }
  }

  /** Note whether one of these halls signed the record. `halls` are their key ids. */
  async vouch(kind, record, halls) {
    let hall;
    try {
      hall = await sealedBy(kind, record);
    } catch (reason) {
      this.unproven.push(`\`hall_sig\`: ${reason.message}.`);
      return;
    }
    if (!halls.includes(keyId(hall))) this.unproven.push(`\`hall_key\`: you neither named nor know the hall ${hall.hex}.`);
  }
}

/** The key of the hall that signed this record. Raises an error that says why nothing is vouched for. */
async function sealedBy(kind, { hall_sig: sig, ...record }) {
  const key = record.hall_key;
  if ((key ?? null) === null || (sig ?? null) === null) throw new Error("there is no hall signature");
  if (typeof key !== "string" || typeof sig !== "string") throw new Error("the hall signature is not a text");
  if (!/^[0-9a-f]{64}$/.test(key)) throw new Error("the hall's key is not 64 lower-case hex digits");
  const hall = await PublicKey.of(fromHex(key));
  let text;
  try {
    text = canonicalJson(record);
  } catch (error) {
    throw new Error(`the record cannot be checked: ${error.message}`);
  }
  if (!(await hall.verifies(`${kind}|1|${await hashOf(text)}`, sig))) {
    throw new Error("the hall signature does not fit: the record was changed after the hall signed it");
  }
  return hall;
}

export const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (digits) => parseInt(digits, 16));
