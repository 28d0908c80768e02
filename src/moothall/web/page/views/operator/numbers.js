// The hall in numbers: an hour of history, then one sample after another.

import { html, useRef } from "../../ui.js";
import { ask } from "../../operator.js";
import { Sparkline } from "../../parts/chart.js";
import { usePolled } from "../../parts/polling.js";
import { line } from "../../text/unseen.js";
import { Gauge } from "./gauge.js";
import { SERIES, joined, refusalsByCode } from "./samples.js";

const PAUSE = 5000; // milliseconds; the hall takes a sample as often
const MOST_CODES = 12;

export function Numbers() {
  const known = useRef([]);
  const { value: samples, problem } = usePolled(async (options) => {
    const { items } = await ask(`metrics/history?since=${known.current.at(-1)?.at ?? 0}`, options);
    known.current = joined(known.current, items);
    return known.current;
  }, PAUSE, []);
  return html`
    <section aria-label="Numbers" class="part">
      ${problem && html`<p class="problem" role="status">${problem}</p>`}
      ${!samples && html`<p class="hint">Asking the hall…</p>`}
      ${samples && !samples.length && html`<p class="hint">The first sample comes in a few seconds.</p>`}
      ${samples?.length > 0 && html`<${Charts} samples=${samples} />`}
    </section>
  `;
}

function Charts({ samples }) {
  const now = samples.at(-1);
  return html`
    <div class="gauges">
      ${SERIES.map(({ name, of, say }) => html`
        <${Gauge} key=${name} name=${name} say=${say} points=${samples.map((sample) => ({ at: sample.at, value: of(sample) }))} />`)}
    </div>
    <p class="hint">Agents now: ${now.agents}. Watchers of the page: ${now.watchers}. ${trouble(samples)}</p>
    <${Refusals} samples=${samples} />
  `;
}

/** What was slowed down or cut off in the hour. */
function trouble(samples) {
  const count = (name) => samples.reduce((sum, sample) => sum + sample[name], 0);
  return `Frames that waited for the budget of their address: ${count("throttled")}. Connections that were closed because they did not read: ${count("overflows")}.`;
}

function Refusals({ samples }) {
  const codes = refusalsByCode(samples);
  return html`
    <h3>Refusals by code</h3>
    ${!codes.length && html`<p class="hint">The hall refused nothing in this time.</p>`}
    ${codes.length > 0 && html`
      <table class="data still narrow">
        <thead><tr><th scope="col">Code</th><th scope="col" class="number">Refusals</th><th scope="col">When</th></tr></thead>
        <tbody>${codes.slice(0, MOST_CODES).map(({ code, count, points }) => html`
          <tr key=${code}><th scope="row"><code>${line(code, 60)}</code></th><td class="number">${count}</td>
            <td><${Sparkline} points=${points} label="${count} refusals with ${line(code, 60)}" /></td></tr>`)}</tbody>
      </table>`}
    ${codes.length > MOST_CODES && html`<p class="hint">${codes.length - MOST_CODES} other codes are not shown.</p>`}
  `;
}
