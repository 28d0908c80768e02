// One deal: what was agreed, what the person can do about it, and its signed history.

import { html } from "../../ui.js";
import { getOwn } from "../../own.js";
import { link } from "../../router.js";
import { useStore } from "../../store.js";
import { line } from "../../text/unseen.js";
import { Countdown } from "../../parts/countdown.js";
import { Detail, Status } from "../../parts/detail.js";
import { usePolled } from "../../parts/polling.js";
import { Openers } from "../../parts/signing.js";
import { Who, Words } from "../../parts/words.js";
import { wholeTime } from "../../parts/time.js";
import { price } from "./board.js";
import { AcceptForm, CompleteForm, DisputeForm, RejectForm } from "./answers.js";
import { CourtForm } from "../court/filing.js";
import { Steps } from "./steps.js";

const PAUSE = 5000; // milliseconds

export function DealDetail({ id }) {
  const news = useStore((state) => state.news);
  const me = useStore((state) => state.me);
  const { value, problem } = usePolled((options) => getOwn(`deals/${encodeURIComponent(id)}`, options), PAUSE, [id, me?.id], news);
  const deal = value?.deal;
  return html`
    <${Detail} label="One deal" view="deals" id=${id} problem=${problem} heading=${html`Deal${deal && html`<${Status} kind=${deal.status}>${deal.status}</${Status}>`}`}>
      ${deal && html`<${Facts} deal=${deal} /><${Openers} actions=${actionsOf(deal, me)} /><${Steps} steps=${value.steps} deal=${deal} />`}
    </${Detail}>
  `;
}

/** What the person may do now, in the order of the buttons. */
export function actionsOf(deal, me) {
  const facts = { deal };
  if (!me?.isKeyed || deal.case) return [];
  if (deal.status === "pending" && deal.to === me.id) {
    return [{ name: "Accept", isPrimary: true, Form: AcceptForm, facts }, { name: "Reject", Form: RejectForm, facts }];
  }
  if (deal.status === "accepted" && [deal.from, deal.to].includes(me.id)) {
    return [
      { name: "Complete", isPrimary: true, Form: CompleteForm, facts },
      { name: "Take to court", Form: CourtForm, facts },
      { name: "Dispute", isDangerous: true, Form: DisputeForm, facts },
    ];
  }
  return [];
}

function Facts({ deal }) {
  const isOpen = ["pending", "accepted"].includes(deal.status);
  return html`
    <p class="said"><${Words} text=${deal.task} /></p>
    <dl>
      <dt>From</dt><dd><${Who} id=${deal.from} /></dd>
      <dt>To</dt><dd><${Who} id=${deal.to} /></dd>
      <dt>Amount</dt><dd><bdi>${price(deal) || "none"}</bdi></dd>
      <dt>Stakes</dt><dd>${deal.proposer_stake} of the proposer, ${deal.acceptor_stake} of the other party</dd>
      <dt>Proposed</dt><dd><time>${wholeTime(deal.created_at)}</time></dd>
      ${deal.expires && html`<dt>Deadline</dt><dd>${isOpen && !deal.case ? html`<${Countdown} until=${deal.expires} />` : html`<time>${wholeTime(deal.expires)}</time>`}</dd>`}
      ${deal.terms !== null && html`<dt>Terms</dt><dd><${Words} text=${typeof deal.terms === "string" ? deal.terms : JSON.stringify(deal.terms)} /> <span class="hint">(not signed)</span></dd>`}
      ${deal.capability && html`<dt>Skill</dt><dd><bdi>${line(deal.capability, 60)}</bdi></dd>`}
      ${deal.proof !== null && html`<dt>Proof</dt><dd><${Words} text=${deal.proof} /></dd>`}
      ${deal.reject_reason !== null && html`<dt>Rejected because</dt><dd><${Words} text=${deal.reject_reason} /></dd>`}
      ${deal.dispute_reason !== null && html`<dt>Disputed because</dt><dd><${Words} text=${deal.dispute_reason} /></dd>`}
      ${deal.case && html`<dt>Case</dt><dd><a href=${link("court", deal.case)}>${line(deal.case, 60)}</a>: the court holds this deal.</dd>`}
    </dl>
  `;
}
