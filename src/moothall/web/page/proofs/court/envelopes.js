// Checks a case about a conversation of the mesh: what the two envelopes of the agreement say. Pure.
//
// Their signatures cover all of an envelope, so they prove that these two agents agreed on this amount.

import { fromBase64, hex } from "../../bytes.js";
import { keccak256 } from "../keccak.js";

const HEAD = 143; // bytes before the payload (mesh wire 2.2)
const MOST_BYTES = 65536;
const PROPOSE = 3;
const COUNTER = 4;
const ACCEPT = 5;
const LAST_TYPE = 15;
const AMOUNT_BYTES = 16;
const MILLIONTHS = 1000000n;
const CURRENCY = "credits";

/** Bytes in base64 that is written in one way only; undefined for anything else. */
export const strictBytes = (text) =>
  (text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text) ? fromBase64(text) : undefined);

/** Does nothing in a case about a deal of another wire. The signatures over the bytes are checked elsewhere. */
export function checkEnvelopes(file, proposer, acceptor, proof) {
  const found = /^mesh:([0-9a-f]{32})$/.exec(file.proposal_id);
  if (!found) return;
  const { proposal, accept } = file.deal;
  const offered = envelope(proposal.signed);
  const accepted = envelope(accept.signed);
  if (
    !proof.claim(
      "deal.proposal.signed",
      offered !== undefined && [PROPOSE, COUNTER].includes(offered.type) && isBetween(offered, proposer, acceptor),
      "The offer is an envelope, PROPOSE or COUNTER, from one party to the other",
    ) ||
    !proof.claim(
      "deal.accept.signed",
      accepted !== undefined && accepted.type === ACCEPT && isBetween(accepted, acceptor, proposer),
      "The acceptance is an envelope, ACCEPT, back to the party that made the offer",
    )
  ) {
    return;
  }
  const isOfIt = proof.claim(
    "proposal_id",
    offered.conversation === found[1] && accepted.conversation === found[1],
    "Both envelopes belong to the conversation that the case is about",
  );
  const { amount } = accepted;
  const [words, currency] = amount ? [credits(amount), CURRENCY] : [null, null];
  const isAgreed = proof.claim(
    "deal.proposal.amount",
    offered.amount === amount && proposal.amount === words && proposal.currency === currency,
    "Both envelopes name this amount of credits",
  );
  if (isOfIt && isAgreed && ["PROPOSAL", "ACCEPT"].every((step) => proof.steps.includes(step))) {
    proof.proven.push(`Both parties agreed on ${credits(amount)} credits in conversation ${found[1]}: their signatures are over the whole envelopes.`);
  }
  proof.hallWord.push("That no later ACCEPT of this conversation agreed on another amount, and that its delivery was disputed.");
}

/** Undefined: these are not the signing bytes of an envelope. */
function envelope(signed) {
  const bytes = signed === undefined ? undefined : strictBytes(signed);
  if (!bytes || bytes.length < HEAD || bytes.length > MOST_BYTES) return undefined;
  const view = new DataView(bytes.buffer);
  const type = view.getUint16(1);
  const payload = bytes.slice(HEAD);
  const isWhole = view.getUint32(139) === payload.length && hex(bytes.slice(107, 139)) === hex(keccak256(payload));
  if (type < 1 || type > LAST_TYPE || !isWhole) return undefined;
  return { type, sender: hex(bytes.slice(3, 35)), recipient: hex(bytes.slice(35, 67)), conversation: hex(bytes.slice(91, 107)), amount: amountOf(payload) };
}

const isBetween = ({ sender, recipient }, from, to) => sender === from.hex && recipient === to.hex;

/** Millionths of a credit; 0 if the payload is too short for an amount. */
function amountOf(payload) {
  if (payload.length < AMOUNT_BYTES) return 0n;
  return BigInt.asIntN(128, BigInt(`0x${hex(payload.slice(0, AMOUNT_BYTES).reverse())}`));
}

/** 1500000 is "1.5". */
function credits(amount) {
  const whole = amount < 0n ? -amount : amount;
  const rest = whole % MILLIONTHS ? `.${String(whole % MILLIONTHS).padStart(6, "0").replace(/0+$/, "")}` : "";
  return `${amount < 0n ? "-" : ""}${whole / MILLIONTHS}${rest}`;
}
