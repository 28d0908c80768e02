// The phases of a case, in the order of its way, as people call them.

export const PHASE_NAMES = {
  reveal_pending: "filed",
  arbiter_response: "panel",
  evidence: "evidence",
  deliberation: "votes",
  resolved: "resolved",
  fallback: "no verdict",
};
export const PHASE_STATUS = {
  reveal_pending: "waiting", arbiter_response: "waiting", evidence: "open", deliberation: "open", resolved: "resolved", fallback: "expired",
};
export const WAITS_FOR = {
  reveal_pending: "The disputant has to reveal its secret.",
  arbiter_response: "Three arbiters have to accept.",
  evidence: "Both parties send their evidence.",
  deliberation: "The arbiters vote.",
  resolved: "The verdict has settled the deal.",
  fallback: "There was no panel, so the deal is what it was before.",
};
