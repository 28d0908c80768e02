// Deals: a board of what was offered and agreed, and one deal with every signature.

import { html, useState } from "../ui.js";
import { listOwn } from "../own.js";
import { useStore } from "../store.js";
import { usePolled } from "../parts/polling.js";
import { Openers } from "../parts/signing.js";
import { Board } from "./deals/board.js";
import { DealDetail } from "./deals/detail.js";
import { ProposeForm } from "./deals/propose.js";

const PAUSE = 5000; // milliseconds
const MOST = 300; // deals on the board

export function Deals({ argument }) {
  const news = useStore((state) => state.news);
  const me = useStore((state) => state.me);
  const [isMine, setMine] = useState(false);
  const { value, problem } = usePolled((options) => listOwn(`deals${isMine ? "?whose=mine" : ""}`, MOST, options), PAUSE, [me?.id, isMine], news);
  const isPublic = value?.whose === "all" || isMine;
  return html`
    <div class="desk" data-detail=${argument ? "yes" : "no"}>
      <section class="everyone" aria-label="All deals">
        <header>
          <h2 class="title">Deals</h2>
          <span class="hint">${hint(value, me)}</span>
          ${me?.isKeyed && isPublic && html`<label class="check"><input type="checkbox" checked=${isMine} onChange=${(event) => setMine(event.target.checked)} />Only mine</label>`}
          ${me?.isKeyed && html`<${Openers} actions=${[{ name: "Propose", isPrimary: true, Form: ProposeForm }]} />`}
        </header>
        ${problem && html`<p class="problem" role="status">${problem}</p>`}
        ${value && html`<${Board} deals=${value.items} counts=${value.counts} chosen=${argument} />`}
        ${value?.next && html`<p class="hint">Only the newest ${value.items.length} are shown.</p>`}
      </section>
      ${argument && html`<${DealDetail} key=${argument} id=${argument} />`}
    </div>
  `;
}

function hint(value, me) {
  if (!value) return "Asking the hall…";
  if (value.whose === "all") return "All deals of this hall are public.";
  if (!me) return "Deals of others are counts. Join to make your own.";
  return me.isKeyed ? "Your deals. Those of others are counts." : "You joined without a key, so you can make no deals.";
}
