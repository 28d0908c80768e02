// The columns of the board, and a card for each deal.

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

export function columns({ items, counts }) {
  const found = COLUMNS.map((status) => ({ name: status, status, items: items.filter((deal) => deal.status === status), total: counts[status] }));
  return found.filter(({ total, items: deals }, place) => place < ALWAYS || total > 0 || deals.length);
}

export function Card({ item: deal, isChosen }) {
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
