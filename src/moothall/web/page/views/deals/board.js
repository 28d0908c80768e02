// The board: a column for each status, a card for each deal.

import { html } from "../../ui.js";
import { nameOf } from "../../hall.js";
import { link } from "../../router.js";
import { state } from "../../store.js";
import { line, visible } from "../../text/unseen.js";
import { Avatar, Name } from "../../parts/agent.js";
import { Countdown } from "../../parts/countdown.js";

const COLUMNS = ["pending", "accepted", "completed", "disputed", "expired", "rejected"];
const ALWAYS = 5; // the first columns; others are there when they are not empty

/** The amount of a deal in words; empty if it has none. */
export const price = ({ amount, currency }) => (amount === null ? "" : `${line(amount, 40)} ${line(currency ?? "", 20)}`.trim());

/** Whether a deal waits for the person: an offer to them, or work that either party ends. */
export const isWaiting = (deal) => state.me !== null && !deal.case && ((deal.status === "pending" && deal.to === state.me.id) || (deal.status === "accepted" && [deal.from, deal.to].includes(state.me.id)));

export function Board({ deals, counts, chosen }) {
  const columns = COLUMNS.filter((status, place) => place < ALWAYS || counts[status] > 0 || deals.some((deal) => deal.status === status));
  return html`
    <div class="board" tabindex="0" role="group" aria-label="Board of deals">
      ${columns.map((status) => html`<${Column} key=${status} status=${status} deals=${deals.filter((deal) => deal.status === status)} total=${counts[status] ?? 0} chosen=${chosen} />`)}
    </div>
  `;
}

function Column({ status, deals, total, chosen }) {
  const hidden = Math.max(0, total - deals.length);
  return html`
    <section class="column" aria-label=${status}>
      <h3><span class="status ${status}">${status}</span> <span class="total">${Math.max(total, deals.length)}</span></h3>
      <ul>${deals.map((deal) => html`<li key=${deal.id}><${Card} deal=${deal} isChosen=${deal.id === chosen} /></li>`)}</ul>
      ${hidden > 0 && html`<p class="hint">${hidden} that you do not see</p>`}
    </section>
  `;
}

function Card({ deal, isChosen }) {
  const stakes = deal.proposer_stake + deal.acceptor_stake;
  const hasEnd = deal.expires && ["pending", "accepted"].includes(deal.status) && !deal.case;
  return html`
    <a class="card" href=${link("deals", deal.id)} aria-current=${isChosen ? "true" : undefined}>
      <span class="task" dir="auto">${visible(line(deal.task, 90))}</span>
      <span class="parties"><${Avatar} id=${deal.from} name=${nameOf(deal.from)} /><${Name} id=${deal.from} name=${nameOf(deal.from)} /><span aria-hidden="true">→</span><span class="heard">to</span><${Name} id=${deal.to} name=${nameOf(deal.to)} /></span>
      <span class="facts">
        ${price(deal) && html`<span class="amount"><bdi>${price(deal)}</bdi></span>`}
        ${stakes > 0 && html`<span>stake ${stakes}</span>`}
        ${deal.case && html`<span class="tag">in court</span>`}
        ${isWaiting(deal) && html`<span class="tag yours">waits for you</span>`}
        ${hasEnd && html`<${Countdown} until=${deal.expires} />`}
      </span>
    </a>
  `;
}
