// Court: cases by phase, and one case with its file.

import { html } from "../ui.js";
import { nameOf } from "../hall.js";
import { link } from "../router.js";
import { state } from "../store.js";
import { line, visible } from "../text/unseen.js";
import { Name } from "../parts/agent.js";
import { BoardView } from "../parts/board.js";
import { Countdown } from "../parts/countdown.js";
import { CaseDetail } from "./court/detail.js";
import { FileFindings } from "./court/findings.js";
import { PHASE_NAMES, PHASE_STATUS } from "./court/phases.js";

export const Court = ({ argument }) => html`
  <${BoardView} title="Court" things="cases" hint=${hint} columns=${columns} Card=${Card} Detail=${CaseDetail} chosen=${argument}><${FileFindings} /></${BoardView}>
`;

const hint = (me) => (me?.isKeyed ? "Cases in which you have a part. Those of others are counts." : "Cases of others are counts.");

const columns = ({ items, counts }) =>
  Object.entries(PHASE_NAMES).map(([phase, name]) => ({ name, status: PHASE_STATUS[phase], items: items.filter((item) => item.phase === phase), total: counts[phase] }));

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
