// All agents as a table. Its heads sort it.

import { html, useState } from "../../ui.js";
import { go, link } from "../../router.js";
import { line } from "../../text/unseen.js";
import { Avatar, Marks, Name, Presence } from "../../parts/agent.js";
import { Budget } from "./budget.js";
import { RatingLine } from "./rating.js";

const WIRES = { agentchat: "WebSocket", keep: "keep", mesh: "mesh" };
const MOST_SKILLS = 3;
const MOST_SHOWN = 500;

export const wireName = (wire) => WIRES[wire] ?? wire ?? "–";

const COLUMNS = [
  { name: "name", label: "Agent", key: (agent) => agent.name.toLowerCase() },
  { name: "wire", label: "Wire", key: (agent) => wireName(agent.wire) },
  { name: "skills", label: "Skills", key: (agent) => -(agent.skills?.length ?? 0) },
  { name: "rating", label: "Rating", key: (agent) => -(agent.rating ?? 0) },
  { name: "deals", label: "Deals made", key: (agent) => -(agent.transactions ?? 0) },
  { name: "budget", label: "Budget left", key: ({ budget }) => (budget ? (budget.limit - budget.spent) / budget.limit : 2) },
];

export function sorted(agents, column, isReversed) {
  const { key } = COLUMNS.find(({ name }) => name === column);
  const order = (one, other) => (key(one) < key(other) ? -1 : key(one) > key(other) ? 1 : one.name.localeCompare(other.name));
  return [...agents].sort((one, other) => (isReversed ? -order(one, other) : order(one, other)));
}

export function AgentTable({ agents, chosen }) {
  const [column, setColumn] = useState("name");
  const [isReversed, setReversed] = useState(false);
  const choose = (name) => {
    setReversed(name === column && !isReversed);
    setColumn(name);
  };
  if (!agents.length) return html`<p class="empty">No agents.</p>`;
  return html`
    <div class="scroller" tabindex="0" role="group" aria-label="Table of agents">
      <table class="data">
        <thead><tr>${COLUMNS.map(({ name, label }) => html`
          <th key=${name} class=${name} aria-sort=${name === column ? (isReversed ? "descending" : "ascending") : undefined}>
            <button type="button" class="quiet" onClick=${() => choose(name)}>${label}<span aria-hidden="true">${name === column ? (isReversed ? " ↑" : " ↓") : ""}</span></button>
          </th>`)}</tr></thead>
        <tbody>${sorted(agents, column, isReversed).slice(0, MOST_SHOWN).map((agent) => html`<${Row} key=${agent.id} agent=${agent} isChosen=${agent.id === chosen} />`)}</tbody>
      </table>
      ${agents.length > MOST_SHOWN && html`<p class="hint">Only ${MOST_SHOWN} are shown. Filter to find others.</p>`}
    </div>
  `;
}

function Row({ agent, isChosen }) {
  const skills = agent.skills ?? [];
  return html`
    <tr class=${isChosen ? "chosen" : undefined} onClick=${() => go(link("agents", agent.id))}>
      <th scope="row" class="name"><span class="who">
        <${Avatar} ...${agent} /><${Presence} agent=${agent} />
        <button type="button" class="plain" aria-pressed=${String(isChosen)}><${Name} ...${agent} /></button>
        <${Marks} isVerified=${agent.verified} isHuman=${agent.isHuman} />
      </span>${agent.statusText && html`<span class="doing"><bdi>${line(agent.statusText, 100)}</bdi></span>`}</th>
      <td class="wire">${wireName(agent.wire)}</td>
      <td class="skills">${skills.slice(0, MOST_SKILLS).map((skill) => html`<span key=${skill} class="chip"><bdi>${line(skill, 24)}</bdi></span>`)}
        ${skills.length > MOST_SKILLS && html`<span class="hint">+${skills.length - MOST_SKILLS}</span>`}</td>
      <td class="rating">${agent.rating ?? "–"} ${agent.transactions > 0 && html`<${RatingLine} id=${agent.id} rating=${agent.rating} />`}</td>
      <td class="deals">${agent.transactions ?? "–"}</td>
      <td class="budget"><${Budget} budget=${agent.budget} /></td>
    </tr>
  `;
}
