// The life of a conversation, drawn as the specification of the mesh draws it: six states, and what leads from one to another.

import { html } from "../../ui.js";

export const STATES = ["IDLE", "NEGOTIATING", "COMMITTED", "DELIVERED", "RESOLVED", "CLOSED"];

/** { from, to, by, label }: `by` is the message that leads there; an approval is a VERDICT or the requester's own. */
export const STEPS = [
  { from: "IDLE", to: "NEGOTIATING", by: "PROPOSE" },
  { from: "NEGOTIATING", to: "NEGOTIATING", by: "COUNTER" },
  { from: "NEGOTIATING", to: "COMMITTED", by: "ACCEPT" },
  { from: "NEGOTIATING", to: "CLOSED", by: "REJECT" },
  { from: "COMMITTED", to: "DELIVERED", by: "DELIVER" },
  { from: "DELIVERED", to: "RESOLVED", by: "APPROVE", label: "notary or direct approval" },
  { from: "DELIVERED", to: "NEGOTIATING", by: "DISPUTE" },
  { from: "RESOLVED", to: "CLOSED", by: "FEEDBACK" },
];

const labelOf = ({ by, label }) => label ?? by;

/** What may come next, in words. */
export function nextSteps(state) {
  return STEPS.filter(({ from }) => from === state).map((step) => `${labelOf(step)} leads to ${step.to}`);
}

// -- the drawing: states below each other, ways back on the left, the way out on the right -------------

const WIDTH = 320;
const BOX = { width: 132, height: 36 };
const CENTRE = 160;
const PACE = 74; // from one state to the next
const FIRST = 44; // the middle of the first state
const HEIGHT = FIRST + PACE * (STATES.length - 1) + 46;
const LEFT = CENTRE - BOX.width / 2;
const RIGHT = CENTRE + BOX.width / 2;

const middle = (state) => FIRST + PACE * STATES.indexOf(state);

/** The line of a step and the place of its label. */
function drawn({ from, to }) {
  const [start, end] = [middle(from), middle(to)];
  if (from === to) {
    return { path: `M${LEFT} ${start - 11}C${LEFT - 50} ${start - 34} ${LEFT - 50} ${start + 14} ${LEFT - 2} ${start - 1}`, x: LEFT - 38, y: start - 25 };
  }
  if (end < start) return { path: `M${LEFT} ${start}C${LEFT - 80} ${start} ${LEFT - 80} ${end + 11} ${LEFT - 2} ${end + 11}`, x: LEFT - 58, y: (start + end) / 2 + 8 };
  if (end > start + PACE) return { path: `M${RIGHT} ${start}C${RIGHT + 90} ${start} ${RIGHT + 90} ${end} ${RIGHT + 2} ${end}`, x: RIGHT + 67, y: (start + end) / 2 + 4 };
  return { path: `M${CENTRE} ${start + BOX.height / 2}V${end - BOX.height / 2 - 2}`, x: CENTRE + 8, y: (start + end) / 2 + 4, isBeside: true };
}

/** With `current`, that state is lit; with `counts`, each state says how many conversations are in it. */
export function Diagram({ current, counts }) {
  return html`
    <figure class="diagram">
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${inWords(current, counts)}>
        <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8Z" /></marker></defs>
        <circle class="begin" cx=${CENTRE} cy="8" r="5" />
        <path class="step" d="M${CENTRE} 13V${FIRST - BOX.height / 2 - 2}" marker-end="url(#head)" />
        ${STEPS.map((step) => html`<${Step} key=${step.by} step=${step} />`)}
        ${STATES.map((state) => html`<${Box} key=${state} state=${state} isLit=${state === current} count=${counts && (counts[state] ?? 0)} />`)}
        <path class="step" d="M${CENTRE} ${HEIGHT - 28}V${HEIGHT - 18}" marker-end="url(#head)" />
        <circle class="end" cx=${CENTRE} cy=${HEIGHT - 10} r="6" /><circle class="begin" cx=${CENTRE} cy=${HEIGHT - 10} r="3" />
      </svg>
      ${current && html`<figcaption><strong>${current}</strong>${nextSteps(current).length ? `: ${nextSteps(current).join("; ")}.` : ": this is the end."}</figcaption>`}
    </figure>
  `;
}

function Step({ step }) {
  const { path, x, y, isBeside } = drawn(step);
  const lines = labelOf(step).replace(" direct", "\ndirect").split("\n"); // the long one has no room in one line
  return html`
    <path class="step" d=${path} marker-end="url(#head)" />
    <text class="label" x=${x} y=${y} text-anchor=${isBeside ? "start" : "middle"}>${lines.map((words, place) => html`<tspan x=${x} dy=${place ? 12 : -6 * (lines.length - 1)}>${words}</tspan>`)}</text>
  `;
}

function Box({ state, isLit, count }) {
  const y = middle(state);
  return html`
    <g class=${isLit ? "state lit" : "state"}>
      <rect x=${LEFT} y=${y - BOX.height / 2} width=${BOX.width} height=${BOX.height} rx="9" />
      <text x=${CENTRE} y=${y + 4.5} text-anchor="middle">${state}${count === undefined ? "" : html`<tspan class="count" dx="7">${count.toLocaleString()}</tspan>`}</text>
    </g>
  `;
}

function inWords(current, counts) {
  const parts = [`The states of a conversation. ${STEPS.map((step) => `${step.from} to ${step.to}: ${labelOf(step)}`).join("; ")}.`];
  if (current) parts.push(`The current state is ${current}.`);
  if (counts) parts.push(`Conversations now: ${STATES.map((state) => `${counts[state] ?? 0} ${state}`).join(", ")}.`);
  return parts.join(" ");
}
