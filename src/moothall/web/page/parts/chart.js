// Small charts as SVG: a line of points over time, with words for those who do not see it.

import { html } from "../ui.js";

const WIDTH = 300; // units of the drawing; the page stretches it
const MARGIN = 4;
const LAST_STEP = 0.06; // of the width: how long the level after the last step is drawn

/** The path of a line through { at, value } points, in the units of a drawing of this height. Pure. */
export function linePath(points, height, { isStepped = false, least, most } = {}) {
  const low = least ?? Math.min(...points.map(({ value }) => value));
  const high = most ?? Math.max(...points.map(({ value }) => value));
  const from = points[0].at;
  const span = points.at(-1).at - from || 1;
  const width = isStepped ? WIDTH * (1 - LAST_STEP) : WIDTH;
  const x = ({ at }) => round((width * (at - from)) / span);
  const y = ({ value }) => round(height - MARGIN - ((height - 2 * MARGIN) * (value - low)) / (high - low || 1));
  const path = points
    .map((point, place) => (place === 0 ? `M${x(point)} ${y(point)}` : isStepped ? `H${x(point)}V${y(point)}` : `L${x(point)} ${y(point)}`))
    .join("");
  return isStepped ? `${path}H${WIDTH}` : path;
}

const round = (number) => Math.round(number * 100) / 100;

/** A line without axes, as large as a word. */
export function Sparkline({ points, label, isStepped }) {
  if (points.length < 2) return null;
  return html`
    <svg class="sparkline" viewBox="0 0 ${WIDTH} 60" preserveAspectRatio="none" role="img" aria-label=${label}>
      <path d=${linePath(points, 60, { isStepped })} vector-effect="non-scaling-stroke" />
    </svg>
  `;
}

/** A line with its highest and lowest value, and its first and last time. `say(value)` and `sayTime(at)` write them. */
export function Chart({ points, label, say = String, sayTime, isStepped }) {
  if (points.length < 2) return html`<p class="hint">Nothing to draw yet.</p>`;
  const values = points.map(({ value }) => value);
  const path = linePath(points, 120, { isStepped });
  return html`
    <figure class="chart">
      <svg viewBox="0 0 ${WIDTH} 120" preserveAspectRatio="none" role="img" aria-label=${label}>
        <path class="area" d="${path}V120H0Z" />
        <path d=${path} vector-effect="non-scaling-stroke" />
      </svg>
      <figcaption aria-hidden="true">
        <span class="high">${say(Math.max(...values))}</span><span class="low">${say(Math.min(...values))}</span>
        <time class="from">${sayTime(points[0].at)}</time><time class="until">${sayTime(points.at(-1).at)}</time>
      </figcaption>
    </figure>
  `;
}
