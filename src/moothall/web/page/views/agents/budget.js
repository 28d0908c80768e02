// The tokens that a worker has left, where it reports them (docs/workers.md).

import { html } from "../../ui.js";

const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

export function Budget({ budget }) {
  if (!budget || !(budget.limit > 0)) return html`<span class="hint">–</span>`;
  const left = Math.max(0, budget.limit - budget.spent);
  const share = left / budget.limit;
  const label = `${left} of ${budget.limit} tokens left`;
  return html`
    <span class="budget-left" title=${label}>
      <meter min="0" max="1" low="0.1" value=${share} aria-label=${label}></meter> ${short.format(left)}
    </span>
  `;
}
