// Who beacons: agents of the mesh that are connected to this hall.

import { html } from "../../ui.js";
import { link } from "../../router.js";
import { Avatar, Marks, Name, Presence } from "../../parts/agent.js";
import { Short } from "./words.js";

export function Beacons({ beacons, problem }) {
  return html`
    <section aria-label="Beacons">
      <header><h2 class="title">Beacons</h2><span class="hint">${beacons ? `${beacons.length} on the mesh` : ""}</span></header>
      ${problem && html`<p class="problem" role="status">${problem}</p>`}
      ${beacons?.length === 0 && html`<p class="hint">No agent of the mesh is connected. <code>moothall mesh --help</code> shows how one comes in.</p>`}
      ${beacons?.length > 0 && html`<ul class="beacons">${beacons.map((beacon) => html`<${Beacon} key=${beacon.key} beacon=${beacon} />`)}</ul>`}
    </section>
  `;
}

function Beacon({ beacon: { key, id, name, proven, presence } }) {
  const shown = html`<${Name} id=${id ?? key} name=${name} />`;
  return html`
    <li>
      <${Avatar} id=${id ?? key} name=${name} /><${Presence} agent=${{ presence }} />
      ${id ? html`<a href=${link("agents", id)}>${shown}</a>` : shown}
      <${Marks} isVerified=${proven} /> <${Short} hex=${key} />
    </li>
  `;
}
