// Checks the end of a case from its file: that it was due, the tally, what arbiters get, ratings and stakes. Pure.

import { PANEL_SIZE } from "./draw.js";
import { count, isSameList, isUnreplaced } from "./panel.js";

const MAJORITY = 2;
const REWARD = 5;
const FORFEIT = -25;
const K = 16; // agentchat wire 13.7
const SCALE = 400;
const MOST_EXPONENT = 300;
const FLOOR = 100; // no rating drops below this

export const isOpen = (phase) => phase !== "resolved" && phase !== "fallback";

/** The side that two arbiters agree on; mutual fault in every other case. */
export function tally(votes) {
  const side = ["disputant", "respondent"].find((each) => count(votes, (vote) => vote === each) >= MAJORITY);
  return side ?? "mutual";
}

/** The changes of the ratings of disputant and respondent, without stakes. */
export function ratingChanges(disputant, respondent, verdict) {
  const share = 1 / (1 + 10 ** Math.min((respondent - disputant) / SCALE, MOST_EXPONENT));
  const loss = (part) => Math.max(1, Math.round(K * part));
  const gain = (lost) => Math.max(1, Math.round(lost * 0.5));
  if (verdict === "disputant") return [gain(loss(1 - share)), -loss(1 - share)];
  if (verdict === "respondent") return [-loss(share), gain(loss(share))];
  return [-loss(share), -loss(1 - share)];
}

/** `stakes` are what disputant and respondent have signed. */
export function checkVerdict(file, stakes, proof) {
  checkEnding(file, proof);
  if (file.judgement === null) return;
  checkJudgement(file, proof);
  if (file.settlement !== null) checkSettlement(file, stakes, proof);
}

function checkEnding(file, proof) {
  const { phase, arbiters } = file;
  proof.claim("fallback", (file.fallback !== null) === (phase === "fallback"), "There is a reason to fall back where the case fell back, and only there");
  for (const field of ["judgement", "settlement"]) {
    proof.claim(field, (file[field] !== null) === (phase === "resolved"), `There is a ${field} where the case is resolved, and only there`);
  }
  proof.claim("deadline", (file.deadline !== null) === isOpen(phase), "There is a deadline where the case is open, and only there");
  if (["evidence", "deliberation", "resolved"].includes(phase)) {
    proof.claim("arbiters", count(arbiters, ({ status }) => status !== "declined") === PANEL_SIZE, `The panel has ${PANEL_SIZE} arbiters`);
  }
  const statuses = arbiters.map(({ status }) => status);
  if (["arbiter_response", "fallback"].includes(phase)) {
    proof.claim(
      "phase",
      count(statuses, (status) => status === "accepted") < PANEL_SIZE,
      `Fewer than ${PANEL_SIZE} arbiters accepted, so that no evidence was asked for`,
    );
  }
  if (phase === "deliberation") proof.claim("phase", statuses.includes("accepted"), "There is no verdict, because a vote is missing");
  if (phase === "fallback" && statuses.length) {
    // Either no agent was left to replace one that declined, and then the others did not have to answer any more; or
    // time was up, and then those that had not answered forfeited.
    const forfeited = statuses.includes("forfeited");
    proof.claim(
      "fallback",
      isUnreplaced(file) ? !forfeited : forfeited && !statuses.includes("pending"),
      "An arbiter is missing, because no agent was left or because one did not answer",
    );
  }
}

function checkJudgement({ arbiters, judgement }, proof) {
  const cast = new Map(arbiters.filter(({ vote }) => vote !== null).map(({ id, vote }) => [id, vote]));
  const { votes, results, verdict } = judgement;
  const isComplete = isSameList([...votes].sort(), [...cast.keys()].sort());
  proof.claim(
    "judgement.votes",
    isComplete && isSameList(votes, [...votes].sort((one, other) => cast.get(one).at - cast.get(other).at)),
    "The votes are those of the arbiters, in their order",
  );
  proof.claim("judgement.verdict", verdict === tally([...cast.values()].map((vote) => vote.verdict)), `The votes give the verdict ${verdict}`);
  const judges = arbiters.filter(({ status }) => status !== "declined");
  const worth = (vote) => (vote === null ? FORFEIT : vote.verdict === verdict ? REWARD : 0);
  proof.claim(
    "judgement.results",
    results.length === judges.length &&
      judges.every(({ id, vote }, place) => {
        const result = results[place];
        return result.arbiter === id && result.verdict === (vote?.verdict ?? null) && result.reward === worth(vote);
      }),
    "Arbiters get what their votes are worth",
  );
}

function checkSettlement(file, stakes, proof) {
  const { settlement, judgement } = file;
  const { shares } = settlement;
  const names = [file.disputant.id, file.respondent.id, ...judgement.results.map(({ arbiter }) => arbiter)];
  const areNamed = isSameList(shares.map(({ agent }) => agent), names);
  if (!proof.claim("settlement.shares", areNamed, "The parties and the arbiters that voted or forfeited have their shares")) return;
  const points = ratingChanges(shares[0].rating_before, shares[1].rating_before, judgement.verdict);
  const [parties, wonStake] = partyShares(settlement, judgement.verdict, points, stakes, proof);
  const arbiters = judgement.results.map(({ reward }, place) => {
    const { withheld } = shares[place + 2];
    return { earned: reward - withheld, staked: 0, awarded: 0, withheld: Math.min(Math.max(withheld, 0), Math.max(reward, 0)) };
  });
  [...parties, ...arbiters].forEach(({ earned, staked, awarded, withheld }, number) => {
    const share = shares[number];
    const field = `settlement.shares[${number}]`;
    proof.claim(`${field}.earned`, share.earned === earned && share.withheld === withheld, `The rating of ${share.agent} moves by what the verdict gives`);
    proof.claim(`${field}.staked`, share.staked === staked, `The stake of ${share.agent} was signed`);
    proof.claim(`${field}.awarded`, share.awarded === awarded, `${share.agent} gets of the stakes what the verdict gives`);
    proof.claim(
      `${field}.rating_after`,
      share.rating_after === Math.max(FLOOR, share.rating_before + earned + awarded - staked),
      `The rating of ${share.agent} is what it was, plus that, and not below the floor`,
    );
  });
  checkStakes(file, stakes, wonStake, proof);
}

/** What disputant and respondent leave with, and what the winner gets of the loser's stake. */
function partyShares({ transfer }, verdict, points, stakes, proof) {
  const parties = [0, 1].map((side) => ({ earned: points[side], staked: stakes[side], awarded: 0, withheld: 0 }));
  if (verdict === "mutual") return [parties, 0];
  const winner = verdict === "disputant" ? 0 : 1;
  const due = points[winner] + stakes[1 - winner];
  let paid = due;
  if (transfer !== null) {
    paid = payable(due, transfer);
    proof.claim("settlement.transfer", transfer.due === due && transfer.paid === paid, "The winner gets of the loser's points what the rules against farming leave");
  }
  const earned = Math.min(paid, points[winner]);
  parties[winner] = { earned, staked: stakes[winner], awarded: stakes[winner] + paid - earned, withheld: due - paid };
  return [parties, paid - earned];
}

/** The rules against farming, in their order. */
function payable(due, { left, nth, room }) {
  const allowed = left === null ? due : Math.round(Math.min(due, left) / nth);
  return room === null ? allowed : Math.min(allowed, room);
}

function checkStakes({ disputant, respondent, judgement, settlement }, stakes, won, proof) {
  const told = settlement.stakes;
  proof.claim("settlement.stakes", told.disputant === stakes[0] && told.respondent === stakes[1], "The stakes are those that were signed");
  const fates = {
    mutual: ["burned", null, stakes[0] + stakes[1], 0],
    disputant: ["transferred", disputant.id, won, stakes[1] - won],
    respondent: ["transferred", respondent.id, won, stakes[0] - won],
  };
  proof.claim(
    "settlement.stakes",
    isSameList([told.settlement, told.to, told.amount, told.burned], fates[judgement.verdict]),
    "The stakes went where the verdict sends them",
  );
}
