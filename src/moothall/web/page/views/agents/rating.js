// How a rating has moved: as a line in the table, and as a chart.

import { html, useEffect, useState } from "../../ui.js";
import { list } from "../../api.js";
import { Chart, Sparkline } from "../../parts/chart.js";
import { wholeTime } from "../../parts/time.js";

const MOST_STEPS = 100;
const SPACING = 50; // milliseconds between questions: a hall takes a limited number from one address
let before = Promise.resolve();

/** Run one piece of work after another. */
function inTurn(work) {
  const outcome = before.then(work);
  before = outcome.then(() => new Promise((resolve) => setTimeout(resolve, SPACING)), () => {});
  return outcome;
}

/** The history of a rating, oldest first: [{ at, value, why }]. */
function useRatings(id, rating) {
  const [points, setPoints] = useState();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const ending = new AbortController();
    inTurn(() => list(`agents/${encodeURIComponent(id)}/ratings`, MOST_STEPS, { signal: ending.signal }))
      .then((steps) => setPoints(steps.reverse().map(({ at, rating: value, why }) => ({ at, value, why }))))
      .catch((error) => ending.signal.aborted || setProblem(error.message));
    return () => ending.abort();
  }, [id, rating]);
  return { points, problem };
}

const words = (points) => `Rating from ${points[0].value} to ${points.at(-1).value} in ${points.length} steps`;

export function RatingLine({ id, rating }) {
  const { points } = useRatings(id, rating);
  return points?.length > 1 ? html`<${Sparkline} points=${points} label=${words(points)} isStepped />` : null;
}

export function RatingChart({ id, rating }) {
  const { points, problem } = useRatings(id, rating);
  if (problem) return html`<p class="problem">${problem}</p>`;
  if (!points) return html`<p class="hint">Loading…</p>`;
  if (points.length < 2) return html`<p class="hint">This rating has ${points.length ? "moved once" : "not moved yet"}.</p>`;
  return html`<${Chart} points=${points} label=${words(points)} sayTime=${wholeTime} isStepped />`;
}
