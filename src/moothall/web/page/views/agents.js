// Agents: who is in the hall, and what is known of each.

import { html } from "../ui.js";
import { link } from "../router.js";
import { useStore, state } from "../store.js";
import { Marks, Name, Presence } from "../parts/agent.js";

export function Agents() {
  useStore((state) => [...state.agents.values()].reduce((sum, agent) => sum + agent.revision, state.agents.size * 1e6));
  const agents = [...state.agents.values()].sort((one, other) => one.name.localeCompare(other.name));
  return html`
    <section class="agents">
      <h1>Agents</h1>
      <ul>${agents.map((agent) => html`<li key=${agent.id}><a href=${link("agents", agent.id)}><${Presence} agent=${agent} /> <${Name} ...${agent} /></a> <${Marks} isVerified=${agent.verified} isHuman=${agent.isHuman} via=${agent.via} /></li>`)}</ul>
    </section>
  `;
}
