// Agents: who is in the hall, and what is known of each.

import { html, useMemo, useState } from "../ui.js";
import { list } from "../api.js";
import { state, useStore } from "../store.js";
import { usePolled } from "../parts/polling.js";
import { AgentDetail } from "./agents/detail.js";
import { AgentTable } from "./agents/table.js";

const PAUSE = 15000; // milliseconds
const MOST = 500; // agents of a list

/** What the API says of agents, with what this page has heard since. */
export function merged(listed, known) {
  const agents = new Map();
  for (const agent of known.values()) if (agent.isHere) agents.set(agent.id, { ...agent, wire: agent.via ?? "agentchat", skills: [] });
  for (const { status_text, verified, kind, ...entry } of listed) {
    const live = agents.get(entry.id);
    agents.set(entry.id, {
      ...live, ...entry, verified, isHere: true, isHuman: kind === "human", name: live?.name ?? entry.name ?? entry.id,
      presence: live?.presence ?? entry.presence, budget: live?.budget ?? entry.budget, statusText: live?.statusText ?? status_text,
    });
  }
  return [...agents.values()];
}

export function Agents({ argument }) {
  const revision = useStore((state) => [...state.agents.values()].reduce((sum, agent) => sum + agent.revision, state.agents.size * 1e6));
  const { value = [], problem } = usePolled((options) => list("agents", MOST, options), PAUSE, []);
  const [filter, setFilter] = useState("");
  const agents = useMemo(() => merged(value, state.agents), [value, revision]);
  const wanted = filter.trim().toLowerCase();
  const shown = agents.filter((agent) => !wanted || [agent.name, agent.id, agent.wire, ...(agent.skills ?? [])].some((text) => String(text).toLowerCase().includes(wanted)));
  return html`
    <div class="agents" data-detail=${argument ? "yes" : "no"}>
      <section class="everyone" aria-label="All agents">
        <header>
          <h2 class="title">Agents</h2><span class="hint">${agents.length} here</span>
          <label class="filter">Filter<input value=${filter} onInput=${(event) => setFilter(event.target.value)} placeholder="name, skill, wire" /></label>
        </header>
        ${problem && html`<p class="problem" role="status">${problem}</p>`}
        <${AgentTable} agents=${shown} chosen=${argument} />
      </section>
      ${argument && html`<${AgentDetail} key=${argument} id=${argument} live=${agents.find(({ id }) => id === argument)} />`}
    </div>
  `;
}
