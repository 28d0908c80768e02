// The history of a deal. Every signature is checked here, in the browser.

import { html, useEffect, useState } from "../../ui.js";
import { checkStep, verbOf } from "../../proofs/deal.js";
import { wholeTime } from "../../parts/time.js";
import { Code, Exact, Who } from "../../parts/words.js";

export function Steps({ steps, deal }) {
  const [checked, setChecked] = useState([]);
  const facts = JSON.stringify([steps, deal]);
  useEffect(() => {
    let isLatest = true;
    setChecked([]);
    const check = (step) => checkStep(step, deal).catch(({ message }) => ({ problems: [`The step cannot be checked: ${message}.`] }));
    Promise.all(steps.map(check)).then((found) => isLatest && setChecked(found));
    return () => (isLatest = false);
  }, [facts]);
  return html`
    <h3>Signed history</h3>
    <ol class="steps">${steps.map((step, place) => html`<li key=${place}><${Step} step=${step} check=${checked[place]} /></li>`)}</ol>
  `;
}

function Step({ step, check }) {
  return html`
    <p><${Who} id=${step.by} /> ${verbOf(step.type)}${step.at !== null && html` <time class="hint">${wholeTime(step.at)}</time>`}</p>
    <${Outcome} check=${check} />
    <details><summary>What was signed</summary>
      ${check?.text === undefined
        ? html`<p class="hint">${step.signed === null ? "The hall took a secret out of the task, so that the text is not known." : "Bytes of another wire, in base64:"}</p>${step.signed !== null && html`<${Code} text=${step.signed} />`}`
        : html`<${Exact} text=${check.text} label="What was signed" />`}
      <dl><dt>Signature</dt><dd><${Code} text=${step.sig} /></dd><dt>Key</dt><dd><${Code} text=${step.key.split("\n")[1] ?? step.key} /></dd></dl>
    </details>
  `;
}

function Outcome({ check }) {
  if (!check) return html`<p class="hint">Checking the signature…</p>`;
  if (check.problems.length) return html`<ul class="problem" role="status">${check.problems.map((problem) => html`<li key=${problem}>✗ ${problem}</li>`)}</ul>`;
  if (check.isUnknown) return html`<p class="hint">The signature cannot be checked: the hall took a secret out of the task.</p>`;
  return html`<p class="holds">✓ The signature holds</p>`;
}
