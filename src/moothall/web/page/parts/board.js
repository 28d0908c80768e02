// A view with a board: a column for each status, a card for each deal or case, and one of them in full beside it.

import { html, useState } from "../ui.js";
import { listOwn } from "../own.js";
import { useStore } from "../store.js";
import { usePolled } from "./polling.js";

const PAUSE = 5000; // milliseconds
const MOST = 300; // cards

/**
 * `things` are "deals" or "cases", as the API calls them. `hint(me)` says whose they are. `columns(value)` are
 * [{ name, status, items, total }]. `Card` shows an `item`, `Detail` the one with the `id` that was chosen.
 */
export function BoardView({ title, things, hint, columns, Card, Detail, chosen, children }) {
  const news = useStore((state) => state.news);
  const me = useStore((state) => state.me);
  const [isMine, setMine] = useState(false);
  const { value, problem } = usePolled((options) => listOwn(`${things}${isMine ? "?whose=mine" : ""}`, MOST, options), PAUSE, [me?.id, isMine], news);
  const mayChoose = value?.whose === "all" || isMine;
  return html`
    <div class="desk" data-detail=${chosen ? "yes" : "no"}>
      <section class="everyone" aria-label="All ${things}">
        <header>
          <h2 class="title">${title}</h2>
          <span class="hint">${value ? (value.whose === "all" ? `All ${things} of this hall are public.` : hint(me)) : "Asking the hall…"}</span>
          ${me?.isKeyed && mayChoose && html`<label class="check"><input type="checkbox" checked=${isMine} onChange=${(event) => setMine(event.target.checked)} />Only mine</label>`}
          ${children}
        </header>
        ${problem && html`<p class="problem" role="status">${problem}</p>`}
        ${value && html`
          <div class="board" tabindex="0" role="group" aria-label="Board of ${things}">
            ${columns(value).map((column) => html`<${Column} key=${column.name} ...${column} isWhole=${mayChoose && !value.next} hidesSome=${!mayChoose} Card=${Card} chosen=${chosen} />`)}
          </div>`}
        ${value?.next && html`<p class="hint">Only the newest ${value.items.length} are shown.</p>`}
      </section>
      ${chosen && html`<${Detail} key=${chosen} id=${chosen} />`}
    </div>
  `;
}

/** The total may be that of a moment before: where all items are here, they are counted. */
function Column({ name, status, items, total = 0, isWhole, hidesSome, Card, chosen }) {
  const hidden = hidesSome ? total - items.length : 0;
  return html`
    <section class="column" aria-label=${name}>
      <h3><span class="status ${status}">${name}</span> <span class="total">${isWhole ? items.length : Math.max(total, items.length)}</span></h3>
      <ul>${items.map((item) => html`<li key=${item.id}><${Card} item=${item} isChosen=${item.id === chosen} /></li>`)}</ul>
      ${hidden > 0 && html`<p class="hint">${hidden} that you do not see</p>`}
    </section>
  `;
}
