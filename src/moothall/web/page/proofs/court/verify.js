// Checks the file of a case without the hall, rule for rule and word for word as `moothall court verify` does. Pure.
//
// It computes again the commitment, the seed, the panel, the hashes, every signature, the tally, and the settlement.
// That shows that the file does not contradict itself. The hall's signature covers the rest, and is as good as its word.

import { PublicKey } from "../keys.js";
import { Proof, keyId } from "../proof.js";
import { textOf } from "../texts.js";
import { commitmentOf, itemHash, seedOf } from "./draw.js";
import { checkEnvelopes, strictBytes } from "./envelopes.js";
import { checkPanel, isSameList } from "./panel.js";
import { readCase } from "./shape.js";
import { checkVerdict, isOpen } from "./verdict.js";

const KIND = "MOOTHALL_COURT_CASE";
const MOST_ITEMS = 10;
const REDACTED = "[REDACTED:"; // what stands where a secret stood (agentchat wire 9.6)
const HALL_WORD = [
  "That the case took place, about this PROPOSAL: its signature does not name the deal's id.",
  "Times, server nonce, pools, who was told what, who did not answer; ratings, terms and capability.",
  "Statements, reasonings and unsigned declines; whether a signed value was a number or a text, null or zero.",
];

/**
 * The Proof of a case, as it came out of a JSON parser. Any other value is a contradiction. `halls` are the key ids of
 * halls whose word counts.
 */
export async function verifyCase(value, halls = []) {
  const proof = new Proof();
  let file;
  let keys;
  try {
    file = readCase(value);
  } catch (error) {
    proof.contradictions.push(`This is not the file of a case: ${error.message}`);
    return proof;
  }
  try {
    keys = await keysOf(file);
  } catch (error) {
    proof.contradictions.push(`A \`key\` cannot be read: ${error.message}`);
    return proof;
  }
  await inspect(file, keys, proof);
  proof.hallWord.push(...HALL_WORD);
  if (isOpen(file.phase)) proof.unproven.push("`phase`: the case is open, and the hall signs it when it is closed.");
  else await proof.vouch(KIND, value, halls);
  return proof;
}

async function keysOf({ disputant, respondent, arbiters, deal }) {
  const read = ({ key }) => PublicKey.read(key);
  return {
    disputant: await read(disputant),
    respondent: await read(respondent),
    arbiters: await Promise.all(arbiters.map(read)),
    proposer: await read(deal.proposal),
    acceptor: await read(deal.accept),
  };
}

async function inspect(file, keys, proof) {
  checkPeople(file, keys, proof);
  await checkDeal(file, keys, proof);
  await checkSigned(proof, "intent_sig", "DISPUTE_INTENT", keys.disputant, file, file.intent_sig, "The disputant signed the reason and the commitment");
  await checkReveal(file, keys, proof);
  await checkPanel(file, keys.arbiters, proof);
  for (const [number, arbiter] of file.arbiters.entries()) await checkArbiter(file, `arbiters[${number}]`, arbiter, keys.arbiters[number], proof);
  for (const party of ["disputant", "respondent"]) await checkEvidence(file, party, keys[party], proof);
  const stakes = [file.deal.proposal.elo_stake ?? 0, file.deal.accept.elo_stake ?? 0];
  checkVerdict(file, keys.disputant.equals(keys.proposer) ? stakes : stakes.reverse(), proof);
}

async function checkSigned(proof, where, type, key, fields, sig, sentence) {
  await proof.signed(where, type, key, await textOf(type, fields), sig, sentence);
}

// -- who and what it is about ----------------------------------------------------------------------------

function checkPeople(file, keys, proof) {
  const people = [
    ["disputant", file.disputant, keys.disputant],
    ["respondent", file.respondent, keys.respondent],
    ...file.arbiters.map((arbiter, number) => [`arbiters[${number}]`, arbiter, keys.arbiters[number]]),
  ];
  for (const [field, { id }, key] of people) proof.claim(`${field}.id`, key.hasId(id), `${id} is the id of its key`);
  const different = new Set(people.map(([, , key]) => key.hex)).size;
  const ids = new Set(people.map(([, { id }]) => id)).size;
  proof.claim("arbiters", different === people.length && ids === people.length, "Parties and arbiters are different agents with different ids");
}

async function checkDeal(file, { disputant, respondent, proposer, acceptor }, proof) {
  const { deal } = file;
  const { proposal, accept } = deal;
  await checkOffer(proof, proposer, proposal);
  proof.claim("deal.proposal", proposal.terms === null && proposal.capability === null, "The PROPOSAL is shown without what its signature does not cover");
  await checkStep(proof, "deal.accept.sig", "ACCEPT", acceptor, accept, "The acceptor signed the ACCEPT");
  proof.claim("deal.accept.proposal_id", accept.proposal_id === file.proposal_id, "The ACCEPT is about the disputed deal");
  checkEnvelopes(file, proposer, acceptor, proof);
  proof.claim("deal.from", proposer.hasId(deal.from), "The deal is from the proposer");
  proof.claim("deal.to", acceptor.hasId(deal.to) && proposal.to === deal.to, "The deal is with the one it was proposed to");
  const isSamePair = (one, other) => isSameList([...new Set(one)].sort(), [...new Set(other)].sort());
  proof.claim(
    "deal",
    isSamePair([disputant.hex, respondent.hex], [proposer.hex, acceptor.hex]) && isSamePair([file.disputant.id, file.respondent.id], [deal.from, deal.to]),
    "The parties of the case are the parties of the deal",
  );
}

/** If the hall took a secret out of the task, only the hall can vouch for the signature. */
async function checkOffer(proof, key, proposal) {
  const sentence = "The proposer signed the PROPOSAL";
  const isRedacted = proposal.signed === undefined && proposal.task.includes(REDACTED);
  if (isRedacted && !(await key.verifies(await textOf("PROPOSAL", proposal), proposal.sig))) {
    proof.hallWord.push(`That ${sentence}: the hall took a secret out of its task, so the signature cannot be checked.`);
  } else {
    await checkStep(proof, "deal.proposal.sig", "PROPOSAL", key, proposal, sentence);
  }
}

/** The signature under one operation: of its text, or of the bytes that came by another wire. */
async function checkStep(proof, where, type, key, step, sentence) {
  if (step.signed === undefined) {
    await checkSigned(proof, where, type, key, step, step.sig, sentence);
    return;
  }
  const bytes = strictBytes(step.signed);
  if (!bytes || !(await key.verifies(bytes, step.sig))) {
    proof.claim(where, false, sentence);
    return;
  }
  proof.steps.push(type);
  proof.proven.push(`${sentence}, as bytes of another wire (key ${keyId(key)}).`);
  proof.hallWord.push(`That those bytes say what the fields of the ${type} say.`);
}

// -- the panel -------------------------------------------------------------------------------------------

async function checkReveal(file, { disputant }, proof) {
  const { reveal, phase } = file;
  if (reveal === null) {
    proof.claim(
      "reveal",
      ["reveal_pending", "fallback"].includes(phase) && file.seed === null && file.pool === null && !file.arbiters.length,
      "Nothing was drawn, because nothing was revealed",
    );
    return;
  }
  proof.claim("phase", phase !== "reveal_pending", "The case went on when the nonce was revealed");
  proof.claim("commitment", (await commitmentOf(reveal.nonce)) === file.commitment, "The commitment is the hash of the nonce");
  const fields = { proposal_id: file.proposal_id, nonce: reveal.nonce };
  await checkSigned(proof, "reveal.sig", "DISPUTE_REVEAL", disputant, fields, reveal.sig, "The disputant signed the nonce");
  const seed = await seedOf(file.proposal_id, reveal.nonce, file.server_nonce);
  proof.claim("seed", file.seed === seed, "The seed is the hash of the proposal's id and both nonces");
}

async function checkArbiter({ dispute_id }, field, { id, accepted, declined, vote }, key, proof) {
  if (accepted !== null) {
    await checkSigned(proof, `${field}.accepted.sig`, "ARBITER_ACCEPT", key, { dispute_id }, accepted.sig, `${id} signed that it accepts`);
  }
  if (declined !== null && declined.sig !== null) {
    const fields = { dispute_id, reason: declined.reason };
    await checkSigned(proof, `${field}.declined.sig`, "ARBITER_DECLINE", key, fields, declined.sig, `${id} signed that it declines`);
  }
  if (vote !== null) {
    await checkSigned(proof, `${field}.vote.sig`, "ARBITER_VOTE", key, { dispute_id, verdict: vote.verdict }, vote.sig, `${id} signed its vote`);
  }
}

// -- evidence --------------------------------------------------------------------------------------------

async function checkEvidence(file, party, key, proof) {
  const evidence = file.evidence[party];
  if (evidence === null) return;
  const field = `evidence.${party}`;
  proof.claim(field, ["evidence", "deliberation", "resolved"].includes(file.phase), `The ${party}'s evidence came when it was asked for`);
  proof.claim(`${field}.items`, evidence.items.length <= MOST_ITEMS, `The ${party} sent at most ${MOST_ITEMS} items`);
  const hashes = await Promise.all(evidence.items.map(itemHash));
  proof.claim(`${field}.hashes`, isSameList(evidence.hashes, hashes), `The hashes are those of the ${party}'s items`);
  const fields = { dispute_id: file.dispute_id, items: evidence.items };
  await checkSigned(proof, `${field}.sig`, "EVIDENCE", key, fields, evidence.sig, `The ${party} signed its items`);
}
