// What workers spend today, and the caps: for each key, and for all together.

import { html, useState } from "../../ui.js";
import { ask } from "../../operator.js";
import { Name } from "../../parts/agent.js";
import { Field } from "../../parts/field.js";
import { usePolled } from "../../parts/polling.js";
import { line } from "../../text/unseen.js";
import { useAsked, useDeeds } from "./deeds.js";

const PAUSE = 5000; // milliseconds
const ALL = "all workers together";

const tokens = (count) => `${count.toLocaleString()} tokens`;
const target = (agent) => (agent ? { agent } : {});

const capping = (agent, cap) => ({
  title: `Cap for ${line(agent ?? ALL, 70)}`, action: "Set",
  words: `From now on ${line(agent ?? ALL, 70)} may spend ${tokens(cap)} on a day of UTC. A worker that reports more is stopped.`,
  message: { type: "ADMIN_SET_BUDGET", tokens: cap, ...target(agent) },
  done: ({ agentId }) => `The cap for ${agentId ?? ALL} is ${tokens(cap)} a day.`,
});

const uncapping = (agent) => ({
  title: `No cap for ${line(agent ?? ALL, 70)}`, action: "Take away", isDangerous: true,
  words: `The cap of ${line(agent ?? ALL, 70)} is taken away.`,
  message: { type: "ADMIN_SET_BUDGET", clear: true, ...target(agent) },
  done: ({ agentId }) => `There is no cap for ${agentId ?? ALL}.`,
});

/** Those that spent today, and then those that have a cap and spent nothing. */
const merged = (spenders, budgets) => [
  ...spenders,
  ...budgets
    .filter(({ agentId, cap }) => cap != null && !spenders.some(({ id }) => id === agentId))
    .map(({ agentId, name, cap }) => ({ id: agentId, name, spent: 0, cap })),
];

export function Budgets() {
  const { confirm, dialog, count } = useDeeds();
  const { value, problem } = usePolled((options) => ask("budgets?limit=100", options), PAUSE, [], count);
  const { value: capped } = useAsked("ADMIN_BUDGET", count);
  const spenders = value?.items ?? [];
  const rows = merged(spenders, capped?.budgets ?? []);
  return html`
    <section aria-label="Budgets" class="part">
      ${problem && html`<p class="problem" role="status">${problem}</p>`}
      ${!value && !problem && html`<p class="hint">Asking the hall…</p>`}
      ${value && html`
        <p>On ${line(value.day, 20)} (UTC) workers spent <strong>${tokens(value.spent)}</strong>${value.cap == null ? ". All together have no cap." : ` of ${tokens(value.cap)}.`}
          ${value.cap != null && html` <${Share} spent=${value.spent} cap=${value.cap} label="all workers" />
            <button type="button" class="danger" onClick=${() => confirm(uncapping())}>Take the cap away</button>`}</p>`}
      <${CapForm} confirm=${confirm} />
      ${value && !rows.length && html`<p class="hint">No worker has spent anything today, and no key has a cap.</p>`}
      ${rows.length > 0 && html`<${Table} rows=${rows} confirm=${confirm} />`}
      ${value?.keys > spenders.length && html`<p class="hint">Only the ${spenders.length} keys that spent most are shown, of ${value.keys}.</p>`}
      ${dialog}
    </section>
  `;
}

const Share = ({ spent, cap, label }) => html`<meter min="0" max=${Math.max(1, cap)} high=${0.9 * cap} value=${Math.min(spent, cap)} aria-label="${tokens(spent)} of ${tokens(cap)}, ${label}"></meter>`;

function Table({ rows, confirm }) {
  return html`
    <div class="wide" tabindex="0" role="group" aria-label="Table of budgets">
      <table class="data still">
        <thead><tr><th scope="col">Agent</th><th scope="col" class="number">Spent today</th><th scope="col" class="number">Cap</th><th scope="col">Share</th><th scope="col"><span class="heard">Actions</span></th></tr></thead>
        <tbody>${rows.map(({ id, name, spent, cap }, place) => html`
          <tr key=${`${id} ${place}`}>
            <th scope="row">${name && html`<${Name} id=${id} name=${name} /> `}<code>${line(id, 70)}</code></th>
            <td class="number">${spent.toLocaleString()}</td>
            <td class="number">${cap == null ? "–" : cap.toLocaleString()}</td>
            <td>${cap != null && html`<${Share} spent=${spent} cap=${cap} label=${line(name ?? id, 40)} />`}</td>
            <td class="deed-buttons"><span>${cap != null && html`<button type="button" class="danger" aria-label="Take away the cap of ${line(name ?? id, 40)}" onClick=${() => confirm(uncapping(id))}>Take away</button>`}</span></td>
          </tr>`)}</tbody>
      </table>
    </div>
  `;
}

function CapForm({ confirm }) {
  const [agent, setAgent] = useState("");
  const [cap, setCap] = useState("");
  const submit = (event) => {
    event.preventDefault();
    confirm(capping(agent.trim() || undefined, Number(cap)));
  };
  return html`
    <form class="row-form" onSubmit=${submit} aria-label="Set a cap">
      <${Field} label="Agent" value=${agent} onValue=${setAgent} maxlength="65" placeholder="id or name; empty: all" autocapitalize="off" spellcheck=${false} />
      <${Field} label="Tokens a day" value=${cap} onValue=${setCap} type="number" min="0" max="9007199254740991" step="1" required />
      <button class="primary">Set</button>
    </form>
  `;
}
