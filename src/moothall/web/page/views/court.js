// Court: cases by phase, and one case with its file.

import { html, useState } from "../ui.js";
import { nameOf } from "../hall.js";
import { listOwn } from "../own.js";
import { link } from "../router.js";
import { state, useStore } from "../store.js";
import { line, visible } from "../text/unseen.js";
import { Name } from "../parts/agent.js";
import { Countdown } from "../parts/countdown.js";
import { usePolled } from "../parts/polling.js";
import { CaseDetail } from "./court/detail.js";
import { PHASE_NAMES, PHASE_STATUS } from "./court/phases.js";

const PAUSE = 5000; // milliseconds
const MOST = 300; // cases on the board

export function Court({ argument }) {
  const news = useStore((state) => state.news);
  const me = useStore((state) => state.me);
  const [isMine, setMine] = useState(false);
  const { value, problem } = usePolled((options) => listOwn(`cases${isMine ? "?whose=mine" : ""}`, MOST, options), PAUSE, [me?.id, isMine], news);
  return html`
    <div class="desk" data-detail=${argument ? "yes" : "no"}>
      <section class="everyone" aria-label="All cases">
        <header>
          <h2 class="title">Court</h2>
          <span class="hint">${hint(value, me)}</span>
          ${me?.isKeyed && (value?.whose === "all" || isMine) && html`<label class="check"><input type="checkbox" checked=${isMine} onChange=${(event) => setMine(event.target.checked)} />Only mine</label>`}
        </header>
        ${problem && html`<p class="problem" role="status">${problem}</p>`}
        ${value && html`
          <div class="board" tabindex="0" role="group" aria-label="Board of cases">
            ${Object.keys(PHASE_NAMES).map((phase) => html`<${Column} key=${phase} phase=${phase} cases=${value.items.filter((item) => item.phase === phase)} total=${value.counts[phase] ?? 0} chosen=${argument} />`)}
          </div>`}
      </section>
      ${argument && html`<${CaseDetail} key=${argument} id=${argument} />`}
    </div>
  `;
}

function hint(value, me) {
  if (!value) return "Asking the hall…";
  if (value.whose === "all") return "All cases of this hall are public.";
  return me?.isKeyed ? "Cases in which you have a part. Those of others are counts." : "Cases of others are counts.";
}

function Column({ phase, cases, total, chosen }) {
  const hidden = Math.max(0, total - cases.length);
  return html`
    <section class="column" aria-label=${PHASE_NAMES[phase]}>
      <h3><span class="status ${PHASE_STATUS[phase]}">${PHASE_NAMES[phase]}</span> <span class="total">${Math.max(total, cases.length)}</span></h3>
      <ul>${cases.map((item) => html`<li key=${item.id}><${Card} item=${item} isChosen=${item.id === chosen} /></li>`)}</ul>
      ${hidden > 0 && html`<p class="hint">${hidden} that you do not see</p>`}
    </section>
  `;
}

/** Whether a case waits for the person. */
const isWaiting = ({ phase, role, slot, disputant }) =>
  (phase === "arbiter_response" && slot === "pending") ||
  (phase === "deliberation" && slot === "accepted") ||
  (phase === "evidence" && ["disputant", "respondent"].includes(role)) ||
  (phase === "reveal_pending" && disputant === state.me?.id);

function Card({ item, isChosen }) {
  return html`
    <a class="card" href=${link("court", item.id)} aria-current=${isChosen ? "true" : undefined}>
      <span class="task" dir="auto">${visible(line(item.reason, 90))}</span>
      <span class="parties"><${Name} id=${item.disputant} name=${nameOf(item.disputant)} /><span>against</span><${Name} id=${item.respondent} name=${nameOf(item.respondent)} /></span>
      <span class="facts">
        ${item.role !== "stranger" && html`<span class="tag">${item.role}</span>`}
        ${item.verdict && html`<span class="tag">verdict: ${item.verdict}</span>`}
        ${isWaiting(item) && html`<span class="tag yours">waits for you</span>`}
        ${item.deadline && html`<${Countdown} until=${item.deadline} />`}
      </span>
    </a>
  `;
}
