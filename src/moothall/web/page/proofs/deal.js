// Whether the signed steps of a deal hold: who signed, exactly what, and whether that is the deal that is shown. Pure.

import { fromBase64 } from "../bytes.js";
import { PublicKey } from "./keys.js";
import { textOf } from "./texts.js";

const VERBS = { PROPOSAL: "proposed", ACCEPT: "accepted", REJECT: "rejected", COMPLETE: "completed", DISPUTE: "disputed" };

export const verbOf = (type) => VERBS[type] ?? type;

const same = (one, other) => (one ?? null) === (other ?? null);

/** What a step says of the deal, as [what, holds]. */
const CLAIMS = {
  PROPOSAL: ({ by, fields }, deal) => [
    ["the proposer signed it", by === deal.from],
    ["it was proposed to the other party", fields.to === deal.to],
    ["the task is the one that is shown", fields.task === deal.task],
    ["the amount is the one that is shown", same(fields.amount, deal.amount) && same(fields.currency, deal.currency)],
    ["the stake is the one that is shown", (fields.elo_stake || 0) === deal.proposer_stake],
  ],
  ACCEPT: ({ by, fields }, deal) => [
    ["the other party signed it", by === deal.to],
    ["the stake is the one that is shown", (fields.elo_stake || 0) === deal.acceptor_stake],
  ],
  REJECT: ({ by, fields }, deal) => [
    ["the other party signed it", by === deal.to],
    ["the reason is the one that is shown", same(fields.reason, deal.reject_reason)],
  ],
  COMPLETE: ({ by, fields }, deal) => [
    ["a party signed it", by === deal.completed_by && [deal.from, deal.to].includes(by)],
    ["the proof is the one that is shown", same(fields.proof, deal.proof)],
  ],
  DISPUTE: ({ by, fields }, deal) => [
    ["a party signed it", by === deal.disputed_by && [deal.from, deal.to].includes(by)],
    ["the reason is the one that is shown", fields.reason === deal.dispute_reason],
  ],
};

/**
 * One step: { text, problems, isUnknown }. `text` is what was signed, or undefined for bytes of another wire.
 * `isUnknown`: the signature cannot be checked, because the hall took a secret out of the task.
 */
export async function checkStep(step, deal) {
  const problems = [];
  const claim = (what, holds) => holds || problems.push(`It does not hold that ${what}.`);
  for (const [what, holds] of CLAIMS[step.type]?.(step, deal) ?? [["this is a step of a deal", false]]) claim(what, holds);
  if (step.type !== "PROPOSAL") claim("it names this deal", step.fields.proposal_id === deal.id);
  if (step.signed === null) return { problems, isUnknown: true };
  let key;
  let bytes;
  try {
    key = await PublicKey.read(step.key);
    bytes = fromBase64(step.signed);
  } catch {
    return { problems: [...problems, "The key or what was signed cannot be read."] };
  }
  claim(`${step.by} is the id of the key`, key.hasId(step.by));
  const text = step.follows ? await textOf(step.type, step.fields) : undefined;
  if (step.follows) claim("the fields give the text that was signed", isText(bytes, text));
  claim("the key signed it", await key.verifies(bytes, step.sig));
  return { text, problems };
}

function isText(bytes, text) {
  const expected = new TextEncoder().encode(text);
  return bytes.length === expected.length && bytes.every((byte, place) => byte === expected[place]);
}
