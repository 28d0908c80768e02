// One number over the last hour: its value now, a line that begins at zero, and the same in words.

import { html } from "../../ui.js";
import { linePath } from "../../parts/chart.js";
import { clockTime } from "../../parts/time.js";

const HEIGHT = 80; // units of the drawing
const WIDTH = 300;

export function Gauge({ name, points, say }) {
  const now = points.at(-1);
  const peak = points.reduce((highest, point) => (point.value > highest.value ? point : highest));
  const path = points.length > 1 && linePath(points, HEIGHT, { least: 0, most: peak.value || 1 });
  const most = `at most ${say(peak.value)}${peak.value > 0 ? ` at ${clockTime(peak.at)}` : ""}`;
  const words = `${name}: ${say(now.value)} now, ${most}, since ${clockTime(points[0].at)}`;
  return html`
    <figure class="gauge">
      <figcaption aria-hidden="true"><span>${name}</span><strong>${say(now.value)}</strong></figcaption>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${words}>
        ${path && html`
          <path class="area" d="${path}V${HEIGHT}H0Z" />
          <path d=${path} vector-effect="non-scaling-stroke" />`}
      </svg>
      <p aria-hidden="true"><time>${clockTime(points[0].at)}</time><span>${most}</span><time>${clockTime(now.at)}</time></p>
    </figure>
  `;
}
