// The panel, and how it was drawn: the browser shuffles the pool again.

import { html, useEffect, useState } from "../../ui.js";
import { shuffled } from "../../proofs/court/draw.js";
import { Code, Who, Words } from "../../parts/words.js";

export function Panel({ file }) {
  return html`
    <h3>Panel</h3>
    ${file.arbiters.length
      ? html`<ul class="seats">${file.arbiters.map((arbiter) => html`
          <li key=${arbiter.id}><${Who} id=${arbiter.id} /> <span class="tag">${arbiter.status}</span>
            ${arbiter.is_replacement && html` <span class="hint">replacement</span>`}
            ${arbiter.declined && arbiter.declined.reason !== null && html`<p class="hint"><${Words} text=${arbiter.declined.reason} most=${500} /></p>`}
          </li>`)}</ul>`
      : html`<p class="hint">No arbiter was drawn${file.phase === "reveal_pending" ? " yet" : ""}.</p>`}
    <details><summary>How it was drawn</summary>
      <dl class="long">
        <dt>Commitment of the disputant</dt><dd><${Code} text=${file.commitment} /></dd>
        <dt>Nonce of the hall</dt><dd><${Code} text=${file.server_nonce} /></dd>
        ${file.pool_hash && html`<dt>Hash of the pool, named before the secret</dt><dd><${Code} text=${file.pool_hash} /></dd>`}
        ${file.reveal && html`<dt>Secret of the disputant</dt><dd><${Code} text=${file.reveal.nonce} /></dd>`}
        ${file.seed && html`<dt>Seed: the hash of the deal's id and both nonces</dt><dd><${Code} text=${file.seed} /></dd>`}
      </dl>
      ${file.seed && file.pool && html`<${Order} file=${file} />`}
    </details>
  `;
}

/** The pool in the order of the draw. Seats go down this order. */
function Order({ file }) {
  const [order, setOrder] = useState([]);
  useEffect(() => {
    let isLatest = true;
    shuffled(file.seed, file.pool).then((found) => isLatest && setOrder(found));
    return () => (isLatest = false);
  }, [file.seed, file.pool.join()]);
  const fate = (id) => {
    const passed = file.skipped?.find((each) => each.id === id);
    const seat = file.arbiters.find((arbiter) => arbiter.id === id);
    return seat ? `seat, ${seat.status}` : passed ? `passed over: ${passed.why === "absent" ? "absent" : "not eligible"}` : "not asked";
  };
  return html`
    <p class="hint">The pool of ${file.pool.length}, shuffled by the seed:</p>
    <ol class="order">${order.map((id) => html`<li key=${id}><${Who} id=${id} /> <span class="hint">${fate(id)}</span></li>`)}</ol>
  `;
}
