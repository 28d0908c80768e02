// One case: what it is about, what the person can do, and its file from the filing to the settlement.

import { html, useState } from "../../ui.js";
import { getOwn } from "../../own.js";
import { link } from "../../router.js";
import { useStore } from "../../store.js";
import { line } from "../../text/unseen.js";
import { Countdown } from "../../parts/countdown.js";
import { Detail, Status } from "../../parts/detail.js";
import { usePolled } from "../../parts/polling.js";
import { saveText } from "../../parts/saving.js";
import { Openers } from "../../parts/signing.js";
import { wholeTime } from "../../parts/time.js";
import { Who, Words } from "../../parts/words.js";
import { EvidenceForm } from "./evidence.js";
import { BothEvidence, Judgement } from "./outcome.js";
import { Panel } from "./panel.js";
import { PHASE_NAMES, PHASE_STATUS, WAITS_FOR } from "./phases.js";
import { RevealForm } from "./filing.js";
import { AcceptSeatForm, DeclineSeatForm, VoteForm } from "./judging.js";
import { Findings } from "./findings.js";

const PAUSE = 5000; // milliseconds

export function CaseDetail({ id }) {
  const news = useStore((state) => state.news);
  const me = useStore((state) => state.me);
  const { value: file, problem } = usePolled((options) => getOwn(`cases/${encodeURIComponent(id)}`, options), PAUSE, [id, me?.id], news);
  const [isVerifying, setVerifying] = useState(false);
  const save = () => saveText(`${line(id, 80).replace(/[^\w-]/g, "_")}.json`, `${JSON.stringify(file, null, 2)}\n`, "application/json");
  return html`
    <${Detail} label="One case" view="court" id=${id} problem=${problem} heading=${html`Case${file && html`<${Status} kind=${PHASE_STATUS[file.phase]}>${PHASE_NAMES[file.phase]}</${Status}>`}`}>
      ${file && html`
        <${Facts} file=${file} />
        <${Openers} actions=${actionsOf(file, me)} />
        <div class="buttons start">
          <button type="button" onClick=${() => setVerifying(true)}>Verify</button>
          <button type="button" class="quiet" onClick=${save}>Save the file</button>
        </div>
        ${isVerifying && html`<${Findings} file=${file} />`}
        <${Panel} file=${file} />
        <${BothEvidence} file=${file} />
        <${Judgement} file=${file} />`}
    </${Detail}>
  `;
}

/** What the person may do now, in the order of the buttons. */
export function actionsOf(file, me) {
  if (!me?.isKeyed) return [];
  const facts = { file };
  const slot = file.arbiters.find(({ id, status }) => id === me.id && status !== "declined");
  const party = ["disputant", "respondent"].find((side) => file[side].id === me.id);
  if (file.phase === "reveal_pending" && party === "disputant") return [{ name: "Reveal", isPrimary: true, Form: RevealForm, facts }];
  if (file.phase === "arbiter_response" && slot?.status === "pending") {
    return [{ name: "Accept", isPrimary: true, Form: AcceptSeatForm, facts }, { name: "Decline", Form: DeclineSeatForm, facts }];
  }
  if (file.phase === "evidence" && party && !file.evidence[party]) return [{ name: "Submit evidence", isPrimary: true, Form: EvidenceForm, facts }];
  if (file.phase === "deliberation" && slot?.status === "accepted") return [{ name: "Vote", isPrimary: true, Form: VoteForm, facts }];
  return [];
}

function Facts({ file }) {
  const { proposal, accept } = file.deal;
  return html`
    <p class="hint">${WAITS_FOR[file.phase]} ${file.deadline && html`<${Countdown} until=${file.deadline} />`}</p>
    <p class="said"><${Words} text=${file.reason} /></p>
    <dl>
      <dt>Disputant</dt><dd><${Who} id=${file.disputant.id} /></dd>
      <dt>Respondent</dt><dd><${Who} id=${file.respondent.id} /></dd>
      <dt>Filed</dt><dd><time>${wholeTime(file.filed_at)}</time></dd>
      <dt>Deal</dt><dd><a href=${link("deals", file.proposal_id)}>${line(file.proposal_id, 60)}</a></dd>
      <dt>Task</dt><dd><${Words} text=${proposal.task} most=${600} /></dd>
      <dt>Amount</dt><dd><bdi>${proposal.amount === null || proposal.amount === undefined ? "none" : line(`${proposal.amount} ${proposal.currency ?? ""}`, 60)}</bdi></dd>
      <dt>Stakes</dt><dd>${proposal.elo_stake ?? 0} of the proposer, ${accept.elo_stake ?? 0} of the other party</dd>
      ${file.fallback && html`<dt>No verdict</dt><dd><${Words} text=${file.fallback.reason} /></dd>`}
    </dl>
  `;
}
