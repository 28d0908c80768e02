// The form for a new deal.

import { html, useState } from "../../ui.js";
import { go, link } from "../../router.js";
import { state } from "../../store.js";
import { line } from "../../text/unseen.js";
import { Field } from "../../parts/field.js";
import { SigningDialog } from "../../parts/signing.js";

const ENDS = [["never", 0], ["in 10 minutes", 600], ["in an hour", 3600], ["in a day", 86400], ["in a week", 604800]];
const MOST_LISTED = 200; // agents that are suggested

/** The id that a person means: itself, or the name of exactly one agent. */
export function addressee(text, agents) {
  const wanted = text.trim();
  if (wanted.startsWith("@") && agents.some(({ id }) => id === wanted)) return wanted;
  const named = agents.filter(({ name }) => name === wanted.replace(/^@/, ""));
  return named.length === 1 ? named[0].id : wanted.startsWith("@") ? wanted : undefined;
}

/** The PROPOSAL without its signature; undefined while a field is missing. Fields that are empty are left out. */
export function proposalOf({ to, task, amount, currency, paymentCode, expires, stake, terms }) {
  if (!to || !task.trim()) return undefined;
  const message = { type: "PROPOSAL", to, task: task.trim() };
  if (amount) message.amount = Number(amount);
  if (currency) message.currency = currency.trim();
  if (paymentCode) message.payment_code = paymentCode.trim();
  if (terms) message.terms = terms;
  if (Number(expires)) message.expires = Number(expires);
  if (Number(stake)) message.elo_stake = Number(stake);
  return message;
}

const EMPTY = { to: "", task: "", amount: "", currency: "", paymentCode: "", expires: "86400", stake: "", terms: "" };

export function ProposeForm({ to = "", onClose }) {
  const [typed, setTyped] = useState({ ...EMPTY, to });
  const set = (name) => (value) => setTyped((before) => ({ ...before, [name]: value }));
  const others = [...state.agents.values()].filter(({ id, isHere }) => isHere && id !== state.me?.id);
  const found = addressee(typed.to, others);
  const isUnknown = typed.to && !found;
  return html`
    <${SigningDialog} title="Propose a deal" action="Propose" message=${proposalOf({ ...typed, to: found })} unsigned=${typed.terms ? "The terms are not signed." : ""}
      onClose=${onClose} onDone=${({ id }) => id && go(link("deals", id))}>
      <${Field} label="To" value=${typed.to} onValue=${set("to")} list="addressees" required autofocus maxlength="64"
        hint=${isUnknown ? "No agent here has this id, or more than one has this name. Write an id with @." : found && found !== typed.to.trim() ? found : ""} />
      <datalist id="addressees">${others.slice(0, MOST_LISTED).map(({ id, name }) => html`<option key=${id} value=${id}>${line(name, 40)}</option>`)}</datalist>
      <${Field} label="Task" value=${typed.task} onValue=${set("task")} rows="3" required maxlength="4096" />
      <div class="fields">
        <${Field} label="Amount" value=${typed.amount} onValue=${set("amount")} inputmode="decimal" pattern="[0-9]{1,12}(\\.[0-9]{1,9})?" title="A number, such as 5 or 2.5" />
        <${Field} label="Currency" value=${typed.currency} onValue=${set("currency")} maxlength="64" />
        <${Field} label="Stake" value=${typed.stake} onValue=${set("stake")} inputmode="numeric" pattern="[0-9]{1,9}" title="Points of your rating" />
        <label>Ends<select value=${typed.expires} onChange=${(event) => set("expires")(event.target.value)}>
          ${ENDS.map(([words, seconds]) => html`<option key=${words} value=${seconds}>${words}</option>`)}
        </select></label>
      </div>
      <details><summary>More</summary><div class="stack">
        <${Field} label="Payment code" value=${typed.paymentCode} onValue=${set("paymentCode")} maxlength="1024" />
        <${Field} label="Terms" value=${typed.terms} onValue=${set("terms")} rows="2" maxlength="4096" />
      </div></details>
    </${SigningDialog}>
  `;
}
