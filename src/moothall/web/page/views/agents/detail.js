// One agent: reputation, skills, budget, and what the person can do about it.

import { html, useEffect, useState } from "../../ui.js";
import { get } from "../../api.js";
import { hex } from "../../bytes.js";
import { listen } from "../../feed.js";
import { roomLink } from "../../router.js";
import { send } from "../../session.js";
import { useStore } from "../../store.js";
import { line, visible } from "../../text/unseen.js";
import { Avatar, Marks, Name, Presence } from "../../parts/agent.js";
import { Detail } from "../../parts/detail.js";
import { usePolled } from "../../parts/polling.js";
import { Budget } from "./budget.js";
import { RatingChart } from "./rating.js";
import { wireName } from "./table.js";

export function AgentDetail({ id, live }) {
  const { value, problem } = usePolled((options) => get(`agents/${encodeURIComponent(id)}`, options), 15000, [id]);
  const told = value?.agent;
  const agent = { isHere: told ? told.presence !== "offline" : false, isHuman: told?.kind === "human", ...told, statusText: told?.status_text, ...live, id };
  const name = agent.name ?? id;
  return html`
    <${Detail} label="One agent" view="agents" id=${id} problem=${!value && problem} before=${html`<${Avatar} id=${id} name=${name} />`}
      heading=${html`<${Name} id=${id} name=${name} /> <${Marks} isVerified=${agent.verified} isHuman=${agent.isHuman} />`}>
      <p><${Presence} agent=${agent} /> ${agent.isHere ? agent.presence : "offline"}${agent.statusText ? html`: <bdi>${visible(line(agent.statusText, 100))}</bdi>` : ""}</p>
      <${Actions} id=${id} agent=${agent} />
      <dl>
        <dt>Wire</dt><dd>${wireName(agent.wire)}</dd>
        <dt>Rating</dt><dd>${agent.rating ?? "none: it has no key"}</dd>
        <dt>Deals made</dt><dd>${agent.transactions ?? 0}</dd>
        ${value?.reputation && html`<dt>Staked</dt><dd>${value.reputation.escrowed} points in open deals, ${value.reputation.available} free</dd>`}
        <dt>Budget left</dt><dd><${Budget} budget=${agent.budget} /></dd>
      </dl>
      ${agent.rating != null && html`<h3>Rating over time</h3><${RatingChart} id=${id} rating=${agent.rating} />`}
      <${Skills} offers=${value?.offers ?? []} ratings=${value?.reputation?.skills ?? {}} />
    </${Detail}>
  `;
}

function Actions({ id, agent }) {
  const me = useStore((state) => state.me);
  if (!me || me.id === id) return null;
  return html`
    <div class="buttons start">
      ${agent.wire !== "mesh" && agent.isHere && html`<button type="button" class="primary" onClick=${() => (location.hash = roomLink(id))}>Talk</button>`}
      ${agent.isHere && html`<${Proof} id=${id} />`}
    </div>
  `;
}

/** Asks the agent to sign a number that was never used before: only the holder of its key can. */
function Proof({ id }) {
  const [outcome, setOutcome] = useState("");
  useEffect(() => {
    const success = listen("VERIFY_SUCCESS", ({ agent }) => agent === id && setOutcome("It has just proved its key."));
    const failure = listen("VERIFY_FAILED", ({ target, reason }) => target === id && setOutcome(`It did not prove its key: ${reason}`));
    return () => [success, failure].forEach((end) => end());
  }, [id]);
  const ask = async () => {
    setOutcome("Asked. Waiting for its answer…");
    try {
      await send({ type: "VERIFY_REQUEST", target: id, nonce: hex(crypto.getRandomValues(new Uint8Array(16))) });
    } catch (error) {
      setOutcome(error.message);
    }
  };
  return html`<button type="button" onClick=${ask}>Ask for proof of its key</button>${outcome && html`<p role="status" class="hint">${outcome}</p>`}`;
}

function Skills({ offers, ratings }) {
  if (!offers.length) return null;
  return html`
    <h3>Skills</h3>
    <ul class="offers">${offers.map((offer, place) => html`
      <li key=${place}><strong><bdi>${line(offer.capability, 60)}</bdi></strong>
        ${offer.rate !== undefined && html` <span class="rate">${line(offer.rate, 20)} ${line(offer.currency ?? "", 12)}</span>`}
        ${Object.hasOwn(ratings, offer.capability) && html` <span class="hint">rated ${ratings[offer.capability].rating} in ${ratings[offer.capability].transactions} ${ratings[offer.capability].transactions === 1 ? "deal" : "deals"}</span>`}
        ${offer.description && html`<p dir="auto">${visible(line(offer.description, 300))}</p>`}
      </li>`)}</ul>
  `;
}
