// Evidence of both parties, the votes, the verdict, and what it did to ratings and stakes.

import { html } from "../../ui.js";
import { line } from "../../text/unseen.js";
import { wholeTime } from "../../parts/time.js";
import { Code, Who, Words } from "../../parts/words.js";

const SIDES = ["disputant", "respondent"];
const signed = (number) => (number > 0 ? `+${number}` : String(number));

export function BothEvidence({ file }) {
  if (["reveal_pending", "arbiter_response"].includes(file.phase) || (file.phase === "fallback" && !SIDES.some((side) => file.evidence[side]))) return null;
  return html`
    <h3>Evidence</h3>
    ${SIDES.map((side) => html`<${Evidence} key=${side} side=${side} party=${file[side]} evidence=${file.evidence[side]} />`)}
  `;
}

function Evidence({ side, party, evidence }) {
  return html`
    <section class="evidence" aria-label="Evidence of the ${side}">
      <p><${Who} id=${party.id} /> <span class="hint">${side}</span></p>
      ${evidence === null
        ? html`<p class="hint">Nothing that you may see.</p>`
        : html`
          ${evidence.statement && html`<p class="said"><${Words} text=${evidence.statement} most=${2000} /></p>`}
          <ul>${evidence.items.map((item, place) => html`<${Item} key=${place} item=${item} hash=${evidence.hashes[place]} />`)}</ul>`}
    </section>
  `;
}

function Item({ item, hash }) {
  const { kind, label, value, ...rest } = item;
  const text = (part) => (typeof part === "string" ? part : JSON.stringify(part));
  return html`
    <li>
      <strong><bdi>${line(text(kind ?? "item"), 40)}</bdi></strong>${label !== undefined && html` <bdi>${line(text(label), 120)}</bdi>`}
      ${value !== undefined && html`<p><${Words} text=${text(value)} most=${2000} /></p>`}
      ${Object.keys(rest).length > 0 && html`<p><${Words} text=${JSON.stringify(rest)} most=${2000} /></p>`}
      <${Code} text=${`sha256 ${hash}`} />
    </li>
  `;
}

export function Judgement({ file }) {
  const { judgement, settlement } = file;
  if (!judgement) return null;
  return html`
    <h3>Verdict</h3>
    <p class="verdict">${judgement.verdict === "mutual" ? "Mutual fault" : `For the ${judgement.verdict}`} <time class="hint">${wholeTime(judgement.at)}</time></p>
    <ul class="seats">${file.arbiters.filter(({ status }) => status !== "declined").map(({ id, vote }) => html`
      <li key=${id}><${Who} id=${id} /> ${vote ? html`<span class="tag">${vote.verdict}</span>` : html`<span class="hint">did not vote</span>`}
        ${vote?.reasoning && html`<p class="said"><${Words} text=${vote.reasoning} most=${500} /></p>`}</li>`)}</ul>
    ${settlement && html`
      <h3>Settlement</h3>
      <table class="data settlement">
        <thead><tr><th scope="col">Agent</th><th scope="col">Before</th><th scope="col">Verdict</th><th scope="col">Stakes</th><th scope="col">After</th></tr></thead>
        <tbody>${settlement.shares.map((share) => html`
          <tr key=${share.agent}><th scope="row"><${Who} id=${share.agent} /></th><td>${share.rating_before}</td><td>${signed(share.earned)}</td>
            <td>${signed(share.awarded - share.staked)}</td><td>${share.rating_after}</td></tr>`)}</tbody>
      </table>
      <p class="hint">${settlement.stakes.settlement === "burned" ? `Both stakes were burned: ${settlement.stakes.amount}.` : `Of the stakes, ${settlement.stakes.amount} went to the winner.`}</p>`}
  `;
}
