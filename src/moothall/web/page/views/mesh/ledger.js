// The ledger of credits: all entries for the operator, one's own for a person with a key.

import { html } from "../../ui.js";
import { ask, hasKey } from "../../operator.js";
import { getOwn } from "../../own.js";
import { link } from "../../router.js";
import { useStore } from "../../store.js";
import { usePolled } from "../../parts/polling.js";
import { wholeTime } from "../../parts/time.js";
import { line } from "../../text/unseen.js";
import { Party, Short, credits, someCredits } from "./words.js";

const PAUSE = 5000; // milliseconds
const PATH = "mesh/ledger?limit=50";
const HOLDERS = { agents: "agents", escrows: "escrows", treasury: "treasury of the hall", external: "outside" };
const CONVERSATION = /^mesh:([0-9a-f]{32})$/;

export function Ledger({ names }) {
  const isOperator = useStore(hasKey);
  const me = useStore((state) => (state.me?.isKeyed ? state.me.id : undefined));
  const mayAsk = isOperator || me !== undefined;
  const { value, problem } = usePolled((options) => (isOperator ? ask(PATH, options) : me ? getOwn(PATH, options) : undefined), PAUSE, [isOperator, me]);
  return html`
    <section aria-label="Ledger">
      <header><h2 class="title">Ledger</h2><span class="hint">${value ? (value.whose === "all" ? "All entries, as the operator sees them." : "Your own entries.") : ""}</span></header>
      ${!mayAsk && html`<p class="hint">Join with a key to see your own credits. Operators see all: enter the admin key under Operator.</p>`}
      ${problem && mayAsk && html`<p class="problem" role="status">${problem}</p>`}
      ${value && html`<${Balance} ledger=${value} /><${Entries} entries=${value.items} names=${names} />`}
      ${value?.next && html`<p class="hint">Only the newest ${value.items.length} are shown.</p>`}
    </section>
  `;
}

function Balance({ ledger: { balance, totals } }) {
  if (totals) {
    return html`<dl class="totals">${Object.entries(totals).map(([holder, total]) => html`
      <div key=${holder}><dt>${HOLDERS[holder] ?? line(holder, 30)}</dt><dd>${credits(total)}</dd></div>`)}</dl>`;
  }
  return balance == null ? null : html`<dl class="totals"><div><dt>your balance</dt><dd>${someCredits(balance)}</dd></div></dl>`;
}

function Entries({ entries, names }) {
  if (!entries.length) return html`<p class="hint">There are no entries.</p>`;
  return html`
    <div class="wide" tabindex="0" role="group" aria-label="Table of entries">
      <table class="data still">
        <thead><tr><th scope="col">Operation</th><th scope="col">When</th><th scope="col">For</th><th scope="col">Postings</th><th scope="col">Authorised by</th></tr></thead>
        <tbody>${entries.map(({ deal, operation, at, postings, envelope }) => html`
          <tr key=${`${operation} ${deal}`}>
            <th scope="row">${line(operation, 30)}</th>
            <td><time>${wholeTime(at)}</time></td>
            <td><${Deal} deal=${deal} /></td>
            <td><ul>${postings.map((posting, place) => html`<${Posting} key=${place} posting=${posting} names=${names} />`)}</ul></td>
            <td>${envelope ? html`<${Short} hex=${envelope} />` : "the operator"}</td>
          </tr>`)}</tbody>
      </table>
    </div>
  `;
}

/** A conversation, or the reference of a deposit. */
function Deal({ deal }) {
  const id = CONVERSATION.exec(deal)?.[1];
  return id ? html`<a href=${link("mesh", id)}>conversation <${Short} hex=${id} /></a>` : line(deal.replace(":", " "), 60);
}

/** Accounts are agent:KEY, escrow:REQUESTER:PROVIDER:CONVERSATION, and those without a colon. */
function Posting({ posting: { account, amount }, names }) {
  const [kind, key] = account.split(":");
  const party = key && html`<${Party} agent=${key} names=${names} />`;
  const holder = kind === "agent" ? party : kind === "escrow" ? html`escrow of ${party}` : (HOLDERS[kind] ?? line(account, 60));
  return html`<li><span class="amount">${amount > 0 ? "+" : ""}${credits(amount)}</span> ${holder}</li>`;
}
