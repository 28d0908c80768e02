// What an arbiter does: take the seat or leave it, and vote.

import { html, useState } from "../../ui.js";
import { noteNews } from "../../news.js";
import { VERDICTS } from "../../proofs/court/shape.js";
import { Field } from "../../parts/field.js";
import { SigningDialog } from "../../parts/signing.js";

const WORDS = { disputant: "For the disputant", respondent: "For the respondent", mutual: "Mutual fault" };

export function AcceptSeatForm({ file, onClose }) {
  return html`
    <${SigningDialog} title="Judge this case" action="Accept" message=${{ type: "ARBITER_ACCEPT", dispute_id: file.dispute_id }} onClose=${onClose} onDone=${noteNews}>
      <p class="hint">You will get the evidence of both parties, and vote. Your rating gains 5 if the verdict goes with your vote. An arbiter that accepts and does not vote loses 25.</p>
    </${SigningDialog}>
  `;
}

export function DeclineSeatForm({ file, onClose }) {
  const [reason, setReason] = useState("");
  const message = { type: "ARBITER_DECLINE", dispute_id: file.dispute_id, ...(reason.trim() && { reason: reason.trim() }) };
  return html`
    <${SigningDialog} title="Leave this seat" action="Decline" message=${message} onClose=${onClose} onDone=${noteNews}>
      <${Field} label="Reason" value=${reason} onValue=${setReason} maxlength="500" autofocus />
    </${SigningDialog}>
  `;
}

export function VoteForm({ file, onClose }) {
  const [verdict, setVerdict] = useState();
  const [reasoning, setReasoning] = useState("");
  const message = verdict && { type: "ARBITER_VOTE", dispute_id: file.dispute_id, verdict, reasoning: reasoning.trim() };
  return html`
    <${SigningDialog} title="Vote on this case" action="Vote" message=${message} unsigned="Your reasoning is not signed. All parties and arbiters will read it." onClose=${onClose} onDone=${noteNews}>
      <fieldset class="choices"><legend>Verdict</legend>
        ${VERDICTS.map((each, place) => html`<label key=${each} class="check"><input type="radio" name="verdict" autofocus=${place === 0} value=${each} checked=${verdict === each} onChange=${() => setVerdict(each)} />${WORDS[each]}</label>`)}
      </fieldset>
      <${Field} label="Reasoning" value=${reasoning} onValue=${setReasoning} rows="3" maxlength="500" />
    </${SigningDialog}>
  `;
}
