// The conversations that the person may see, the newest first, by state.

import { html, useState } from "../../ui.js";
import { link } from "../../router.js";
import { listOwn } from "../../own.js";
import { useStore } from "../../store.js";
import { usePolled } from "../../parts/polling.js";
import { wholeTime } from "../../parts/time.js";
import { STATES } from "./diagram.js";
import { Party, Short, someCredits } from "./words.js";

const PAUSE = 5000; // milliseconds
const MOST = 200; // of a list

export function Conversations({ names, chosen, counts }) {
  const me = useStore((state) => state.me);
  const [state, setState] = useState("");
  const { value, problem } = usePolled((options) => listOwn(`mesh/conversations${state ? `?state=${state}` : ""}`, MOST, options), PAUSE, [me?.id, state]);
  return html`
    <section aria-label="Conversations">
      <header>
        <h2 class="title">Conversations</h2><span class="hint">${hint(value, me)}</span>
        <span class="filter"><label for="talk-state">State</label><select id="talk-state" value=${state} onChange=${(event) => setState(event.target.value)}>
          <option value="">all</option>
          ${STATES.map((each) => html`<option key=${each} value=${each}>${each}${counts ? ` (${counts[each] ?? 0})` : ""}</option>`)}
        </select></span>
      </header>
      ${problem && html`<p class="problem" role="status">${problem}</p>`}
      ${value && !value.items.length && value.whose === "all" && html`<p class="hint">There are none.</p>`}
      ${value?.items.length > 0 && html`<ul class="talks">${value.items.map((talk) => html`<${Talk} key=${talk.conversation_id} talk=${talk} names=${names} isChosen=${talk.conversation_id === chosen} />`)}</ul>`}
      ${value?.next && html`<p class="hint">Only the newest ${value.items.length} are shown.</p>`}
    </section>
  `;
}

function hint(value, me) {
  if (!value) return "";
  if (value.whose === "all") return "All conversations of this hall are public.";
  return me?.isKeyed ? "Yours. Those of others are counts." : "Conversations of others are counts. Join with a key to see your own.";
}

function Talk({ talk, names, isChosen }) {
  const { conversation_id, state, requester, provider, amount, updated_at } = talk;
  return html`
    <li><a href=${link("mesh", conversation_id)} aria-current=${isChosen ? "true" : undefined}>
      <span class="stage" data-state=${state}>${state}</span>
      <${Party} agent=${requester} names=${names} /><span class="heard">asks</span><span aria-hidden="true">→</span><${Party} agent=${provider} names=${names} />
      <span class="grow"></span>
      <span class="amount">${someCredits(amount)}</span>
      ${updated_at && html`<time class="hint">${wholeTime(updated_at)}</time>`}
      <span class="heard">, conversation </span><${Short} hex=${conversation_id} />
    </a></li>
  `;
}
