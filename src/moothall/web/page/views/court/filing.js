// Going to court: commit to a secret, then reveal it, so that neither party nor hall can choose the panel.

import { html, useEffect, useState } from "../../ui.js";
import { hex } from "../../bytes.js";
import { Refusal } from "../../challenge.js";
import { noteNews } from "../../news.js";
import { forgetNonce, keepNonce, keptNonce } from "../../nonces.js";
import { commitmentOf } from "../../proofs/court/draw.js";
import { textOf } from "../../proofs/texts.js";
import { go, link } from "../../router.js";
import { state } from "../../store.js";
import { Field } from "../../parts/field.js";
import { SigningDialog, sendSigned } from "../../parts/signing.js";
import { Exact } from "../../parts/words.js";

/** The secret for this deal: the one that is kept, or a new one. */
async function secretFor(deal) {
  const kept = await keptNonce(state.me.id, deal);
  const nonce = kept ?? hex(crypto.getRandomValues(new Uint8Array(16)));
  return { nonce, isNew: kept === undefined, commitment: await commitmentOf(nonce) };
}

/** Reveal the secret, and forget it. */
async function reveal(message, text) {
  const answer = await sendSigned(message, text);
  await forgetNonce(state.me.id, message.proposal_id);
  noteNews();
  return answer;
}

/** "Take to court": DISPUTE_INTENT, and DISPUTE_REVEAL when the hall has answered. */
export function CourtForm({ deal, onClose }) {
  const [reason, setReason] = useState("");
  const [secret, setSecret] = useState();
  useEffect(() => void secretFor(deal.id).then(setSecret), [deal.id]);
  const next = secret && { type: "DISPUTE_REVEAL", proposal_id: deal.id, nonce: secret.nonce };
  const message = secret && reason.trim() ? { type: "DISPUTE_INTENT", proposal_id: deal.id, reason: reason.trim(), commitment: secret.commitment } : undefined;
  const perform = async (intent, text) => {
    const { id } = state.me;
    await keepNonce(id, deal.id, secret.nonce);
    let filed;
    try {
      filed = await sendSigned(intent, text);
    } catch (error) {
      if (secret.isNew && error instanceof Refusal && error.code !== "INTERNAL_ERROR") await forgetNonce(id, deal.id); // nothing was filed with it
      throw error;
    }
    noteNews();
    await reveal(next, await textOf(next.type, next));
    return filed;
  };
  return html`
    <${SigningDialog} title="Take this deal to court" action="File" message=${message} perform=${perform} onClose=${onClose} onDone=${({ dispute_id }) => dispute_id && go(link("court", dispute_id))}>
      <p class="hint">Three arbiters, drawn by lot, decide. The deal waits for them. You commit to a secret first and reveal it afterwards, so that no party can choose the panel.</p>
      <${Field} label="Reason" value=${reason} onValue=${setReason} rows="3" required maxlength="4096" autofocus />
      ${next && html`<div><h3>When the hall has answered, you will sign</h3><${Exact} text=${`DISPUTE_REVEAL|${next.proposal_id}|${next.nonce}`} label="When the hall has answered, you will sign" /></div>`}
    </${SigningDialog}>
  `;
}

/** For a case whose secret was kept, because something broke in between. */
export function RevealForm({ file, onClose }) {
  const [nonce, setNonce] = useState();
  useEffect(() => void keptNonce(state.me.id, file.proposal_id).then((kept) => setNonce(kept ?? null)), [file.proposal_id]);
  const message = nonce ? { type: "DISPUTE_REVEAL", proposal_id: file.proposal_id, nonce } : undefined;
  return html`
    <${SigningDialog} title="Reveal your secret" action="Reveal" message=${message} perform=${reveal} onClose=${onClose}>
      <p class="hint">${nonce === null ? "This browser does not have the secret of this case. Reveal it where you filed the case." : "The panel is drawn from your secret and the hall's."}</p>
    </${SigningDialog}>
  `;
}
