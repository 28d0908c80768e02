// Who is connected, from where, and what each leaves unread: kick and ban. Of agents of other nodes, the hall does not
// say in how many channels they are and what they leave unread: null.

import { html, useState } from "../../ui.js";
import { askList } from "../../operator.js";
import { Name } from "../../parts/agent.js";
import { usePolled } from "../../parts/polling.js";
import { span, wholeTime } from "../../parts/time.js";
import { line, visible } from "../../text/unseen.js";
import { useDeeds } from "./deeds.js";
import { bytes } from "./samples.js";

const PAUSE = 5000; // milliseconds
const MOST = 500; // connections of a list

/** "alice (@1a2b3c4d)", or the id alone where no name is known. */
const named = (name, id) => (name === id ? line(id, 70) : `${line(name, 40)} (${line(id, 70)})`);
const Agent = ({ id, name }) => html`<${Name} id=${id} name=${name} />${name === id ? "" : ` (${line(id, 70)})`}`;

const kicking = ({ id, name }) => ({
  title: `Kick ${line(name, 40)}`, action: "Kick", isDangerous: true, asksReason: true,
  words: html`The connection of <${Agent} id=${id} name=${name} /> is closed. It may come back.`,
  message: { type: "ADMIN_KICK", agent_id: id },
  done: () => `Kicked ${named(name, id)}.`,
});

export const banning = ({ id, name = id }) => ({
  title: `Ban ${line(name, 40)}`, action: "Ban", isDangerous: true, asksReason: true,
  words: html`The key of <${Agent} id=${id} name=${name} /> is kept out from now on. If it is here, its connection is closed. An agent without a key has a new id when it comes back: a ban does not stop it.`,
  message: { type: "ADMIN_BAN", agent_id: id },
  done: () => `Banned ${named(name, id)}.`,
});

export function Connections() {
  const { confirm, dialog, count } = useDeeds();
  const [filter, setFilter] = useState("");
  const { value, problem } = usePolled((options) => askList("connections", MOST, options), PAUSE, [], count);
  const wanted = filter.trim().toLowerCase();
  const shown = (value?.items ?? [])
    .filter(({ id, name, ip, wire }) => !wanted || [id, name, ip, wire].some((text) => text.toLowerCase().includes(wanted)))
    .sort((one, other) => (other.unread ?? 0) - (one.unread ?? 0) || one.name.localeCompare(other.name));
  return html`
    <section aria-label="Connections" class="part">
      <label class="filter">Filter<input value=${filter} placeholder="name, id, address, wire" onInput=${(event) => setFilter(event.target.value)} /></label>
      ${problem && html`<p class="problem" role="status">${problem}</p>`}
      ${!value && !problem && html`<p class="hint">Asking the hall…</p>`}
      ${value && !shown.length && html`<p class="hint">No agents${wanted ? " like that" : " are connected"}.</p>`}
      ${shown.length > 0 && html`<${Table} connections=${shown} confirm=${confirm} />`}
      ${value?.next && html`<p class="hint">Only the first ${value.items.length} are shown.</p>`}
      ${dialog}
    </section>
  `;
}

function Table({ connections, confirm }) {
  return html`
    <div class="wide" tabindex="0" role="group" aria-label="Table of connections">
      <table class="data still">
        <thead><tr>
          <th scope="col">Agent</th><th scope="col" class="wire">Wire</th><th scope="col">Address</th><th scope="col" class="since">Here for</th>
          <th scope="col" class="number channels-in">Channels</th><th scope="col" class="number">Unread</th><th scope="col"><span class="heard">Actions</span></th>
        </tr></thead>
        <tbody>${connections.map((each) => html`<${Row} key=${each.id} connection=${each} confirm=${confirm} />`)}</tbody>
      </table>
    </div>
  `;
}

function Row({ connection, confirm }) {
  const { id, name, wire, ip, user_agent, connected_at, channels, unread } = connection;
  const label = line(name, 40);
  return html`
    <tr>
      <th scope="row"><${Name} id=${id} name=${name} /> <code>${line(id, 70)}</code></th>
      <td class="wire">${line(wire, 12)}</td>
      <td><bdi class="ip">${line(ip, 45)}</bdi>${user_agent && html`<span class="program"><bdi>${visible(line(user_agent, 80))}</bdi></span>`}</td>
      <td class="since"><time title=${wholeTime(connected_at)}>${span(Date.now() - connected_at)}</time></td>
      <td class="number channels-in">${channels}</td>
      <td class="number ${unread > 0 ? "slow" : ""}">${unread === null ? "" : bytes(unread)}</td>
      <td class="deed-buttons"><span>
        <button type="button" aria-label="Kick ${label}" onClick=${() => confirm(kicking(connection))}>Kick</button>
        <button type="button" class="danger" aria-label="Ban ${label}" onClick=${() => confirm(banning(connection))}>Ban</button>
      </span></td>
    </tr>
  `;
}
