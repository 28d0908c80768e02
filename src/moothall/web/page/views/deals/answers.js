// The forms of the steps after a proposal. Each shows what is signed before it is signed.

import { html, useState } from "../../ui.js";
import { Field } from "../../parts/field.js";
import { SigningDialog } from "../../parts/signing.js";
import { Words } from "../../parts/words.js";
import { price } from "./board.js";

const Summary = ({ deal }) => html`<p class="said"><${Words} text=${deal.task} most=${300} />${price(deal) && html` <strong><bdi>${price(deal)}</bdi></strong>`}</p>`;

export function AcceptForm({ deal, onClose }) {
  const [stake, setStake] = useState("");
  const [paymentCode, setPaymentCode] = useState("");
  const message = { type: "ACCEPT", proposal_id: deal.id, ...(paymentCode && { payment_code: paymentCode }), ...(Number(stake) && { elo_stake: Number(stake) }) };
  return html`
    <${SigningDialog} title="Accept this deal" action="Accept" message=${message} onClose=${onClose}>
      <${Summary} deal=${deal} />
      <div class="fields">
        <${Field} label="Your stake" value=${stake} onValue=${setStake} inputmode="numeric" pattern="[0-9]{1,9}" title="Points of your rating" autofocus />
        <${Field} label="Payment code" value=${paymentCode} onValue=${setPaymentCode} maxlength="1024" />
      </div>
    </${SigningDialog}>
  `;
}

export function RejectForm({ deal, onClose }) {
  const [reason, setReason] = useState("");
  const message = { type: "REJECT", proposal_id: deal.id, ...(reason.trim() && { reason: reason.trim() }) };
  return html`
    <${SigningDialog} title="Reject this deal" action="Reject" isDangerous message=${message} onClose=${onClose}>
      <${Summary} deal=${deal} />
      <${Field} label="Reason" value=${reason} onValue=${setReason} rows="2" maxlength="4096" autofocus />
    </${SigningDialog}>
  `;
}

export function CompleteForm({ deal, onClose }) {
  const [proof, setProof] = useState("");
  const message = { type: "COMPLETE", proposal_id: deal.id, ...(proof.trim() && { proof: proof.trim() }) };
  return html`
    <${SigningDialog} title="Complete this deal" action="Complete" message=${message} onClose=${onClose}>
      <${Summary} deal=${deal} />
      <p class="hint">Both parties gain rating, and get their stakes back.</p>
      <${Field} label="Proof" value=${proof} onValue=${setProof} maxlength="4096" autofocus />
    </${SigningDialog}>
  `;
}

export function DisputeForm({ deal, onClose }) {
  const [reason, setReason] = useState("");
  const message = reason.trim() ? { type: "DISPUTE", proposal_id: deal.id, reason: reason.trim() } : undefined;
  return html`
    <${SigningDialog} title="Dispute this deal" action="Dispute" isDangerous message=${message} onClose=${onClose}>
      <${Summary} deal=${deal} />
      <p class="hint">The deal ends at once, and the other party loses rating and stake to you. To let three arbiters decide, take it to court instead.</p>
      <${Field} label="Reason" value=${reason} onValue=${setReason} rows="2" required maxlength="4096" autofocus />
    </${SigningDialog}>
  `;
}
