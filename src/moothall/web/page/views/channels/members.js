// Who is in the room.

import { html } from "../../ui.js";
import { go, link } from "../../router.js";
import { state, useStore } from "../../store.js";
import { line } from "../../text/unseen.js";
import { Marks, Name, Presence } from "../../parts/agent.js";

const RANK = { online: 0, listening: 1, busy: 2, away: 3, offline: 4 };
const MOST_SHOWN = 300;

export function Members({ room }) {
  const revision = useStore((state) => [...room.members].reduce((sum, id) => sum + (state.agents.get(id)?.revision ?? 0), room.members.size * 1e6));
  const ids = room.isDirect ? [room.name] : [...room.members];
  const members = ids
    .map((id) => state.agents.get(id) ?? { id, name: id === state.me?.id ? state.me.name : id, isHere: true })
    .sort((one, other) => (RANK[one.presence] ?? 0) - (RANK[other.presence] ?? 0) || one.name.localeCompare(other.name));
  return html`
    <aside class="beside members" aria-label="Members" data-revision=${revision}>
      <h2>${room.isDirect ? "With" : `Members · ${members.length}`}</h2>
      <ul>
        ${members.slice(0, MOST_SHOWN).map((agent) => html`
          <li key=${agent.id}><button type="button" class="quiet" onClick=${() => go(link("agents", agent.id))}>
            <${Presence} agent=${agent} /><${Name} ...${agent} /><${Marks} isVerified=${agent.verified} isHuman=${agent.isHuman} via=${agent.via} />
            ${agent.statusText && html`<span class="doing"><bdi>${line(agent.statusText, 100)}</bdi></span>`}
          </button></li>`)}
      </ul>
      ${members.length > MOST_SHOWN && html`<p class="hint">and ${members.length - MOST_SHOWN} more</p>`}
    </aside>
  `;
}
