// News of deals and cases of the person: what they look at is asked for again, and what waits for them is announced.

import { listen } from "./feed.js";
import { nameOf } from "./hall.js";
import { changed, notify, state } from "./store.js";
import { line } from "./text/unseen.js";

const TOLD = {
  PROPOSAL: ({ from, task }) => from !== state.me?.id && `${nameOf(from)} proposes a deal: ${line(task, 60)}`,
  ARBITER_ASSIGNED: () => "You were drawn as an arbiter. Look at Court.",
  CASE_READY: () => "The evidence of a case is complete, and waits for your vote. Look at Court.",
  VERDICT: ({ verdict }) => `There is a verdict: ${verdict}.`,
};

const TYPES = [
  "PROPOSAL", "ACCEPT", "REJECT", "COMPLETE", "DISPUTE", "EXPIRED",
  "DISPUTE_INTENT_ACK", "DISPUTE_REVEALED", "DISPUTE_FALLBACK", "PANEL_FORMED", "ARBITER_ASSIGNED", "EVIDENCE_RECEIVED", "CASE_READY", "VERDICT", "SETTLEMENT_COMPLETE",
];

for (const type of TYPES) {
  listen(type, (message) => {
    state.news++;
    const text = TOLD[type]?.(message);
    if (text) notify(text);
    changed();
  });
}

// The hall tells parties in words when a case is filed against them, and when evidence is asked for.
listen("MSG", ({ from, to }) => from === "@server" && to === state.me?.id && noteNews());

/** After a step that the hall answers to its sender alone. */
export function noteNews() {
  state.news++;
  changed();
}
