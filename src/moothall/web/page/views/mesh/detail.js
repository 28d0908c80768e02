// One conversation: who takes part, what is put aside for it, and every envelope.

import { html } from "../../ui.js";
import { link } from "../../router.js";
import { Detail } from "../../parts/detail.js";
import { wholeTime } from "../../parts/time.js";
import { line } from "../../text/unseen.js";
import { Party, Short, someCredits } from "./words.js";

const SETTLED = { approve: "paid to the provider", claim: "claimed by the provider", cancel: "given back to the requester" };

export function ConversationDetail({ id, answer, problem, names }) {
  return html`
    <${Detail} label="One conversation" view="mesh" id=${id} problem=${problem} heading="Conversation">
      ${!answer && !problem && html`<p class="hint">Asking the hall…</p>`}
      ${answer && html`<${Facts} answer=${answer} names=${names} /><${Escrow} escrow=${answer.escrow} /><${History} answer=${answer} names=${names} />`}
    </${Detail}>
  `;
}

function Facts({ answer: { conversation, verdict, consented, case: caseId }, names }) {
  const { state, requester, provider, notary, amount, deadline, elsewhere, created_at } = conversation;
  return html`
    <dl>
      <dt>State</dt><dd><span class="stage" data-state=${state}>${line(state, 20)}</span></dd>
      <dt>Requester</dt><dd><${Party} agent=${requester} names=${names} /></dd>
      <dt>Provider</dt><dd><${Party} agent=${provider} names=${names} /></dd>
      <dt>Notary</dt><dd>${notary ? html`<${Party} agent=${notary} names=${names} />` : "none"}</dd>
      <dt>Last offer</dt><dd>${someCredits(amount)}</dd>
      ${verdict && html`<dt>Verdict</dt><dd>${line(verdict, 20)}</dd>`}
      ${consented && html`<dt>Cancelling</dt><dd>the provider consents</dd>`}
      ${caseId && html`<dt>Court case</dt><dd><a href=${link("court", caseId)}>${line(caseId, 60)}</a></dd>`}
      ${created_at && html`<dt>Since</dt><dd><time>${wholeTime(created_at)}</time></dd>`}
      ${deadline && html`<dt>The hall acts at</dt><dd><time>${wholeTime(deadline)}</time></dd>`}
      ${elsewhere && html`<dt>Credits</dt><dd>on the ledger of another hall</dd>`}
    </dl>
  `;
}

function Escrow({ escrow }) {
  return html`
    <h3>Escrow</h3>
    ${!escrow && html`<p class="hint">Nothing was put aside.</p>`}
    ${escrow && html`
      <dl>
        <dt>Put aside</dt><dd>${someCredits(escrow.amount)}</dd>
        <dt>For the notary</dt><dd>${someCredits(escrow.notary_fee)}</dd>
        <dt>Since</dt><dd><time>${wholeTime(escrow.created_at)}</time></dd>
        <dt>Until</dt><dd><time>${wholeTime(escrow.created_at + escrow.timeout)}</time></dd>
        <dt>Settled</dt><dd>${escrow.settled ? (SETTLED[escrow.settled] ?? line(escrow.settled, 20)) : "not yet"}</dd>
      </dl>`}
  `;
}

function History({ answer: { history, more }, names }) {
  return html`
    <h3>Envelopes</h3>
    ${more && html`<p class="hint">Older ones are not shown.</p>`}
    ${!history.length && html`<p class="hint">None.</p>`}
    <ol class="envelopes">${history.map(({ msg_type, sender, timestamp, hash }) => html`
      <li key=${hash}><strong>${line(msg_type, 24)}</strong> from <${Party} agent=${sender} names=${names} />
        <span class="hint"><time>${wholeTime(Math.floor(timestamp / 1000))}</time>, hash <${Short} hex=${hash} /></span></li>`)}</ol>
  `;
}
