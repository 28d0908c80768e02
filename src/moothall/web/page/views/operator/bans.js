// Who is kept out: ban by id, also one that is away, and lift a ban.

import { html, useState } from "../../ui.js";
import { askList } from "../../operator.js";
import { Field } from "../../parts/field.js";
import { usePolled } from "../../parts/polling.js";
import { wholeTime } from "../../parts/time.js";
import { line, visible } from "../../text/unseen.js";
import { banning } from "./connections.js";
import { useDeeds } from "./deeds.js";

const PAUSE = 15000; // milliseconds
const MOST = 1000; // bans of a list

const lifting = (id) => ({
  title: `Unban ${line(id, 70)}`, action: "Unban",
  words: `The ban of ${line(id, 70)} is lifted. The agent may come back.`,
  message: { type: "ADMIN_UNBAN", agent_id: id },
  done: ({ agentId }) => `${agentId} is no longer banned.`,
});

export function Bans() {
  const { confirm, dialog, count } = useDeeds();
  const { value, problem } = usePolled((options) => askList("bans", MOST, options), PAUSE, [], count);
  const newest = (value?.items ?? []).sort((one, other) => other.banned_at.localeCompare(one.banned_at));
  return html`
    <section aria-label="Bans" class="part">
      <${BanForm} confirm=${confirm} />
      ${problem && html`<p class="problem" role="status">${problem}</p>`}
      ${!value && !problem && html`<p class="hint">Asking the hall…</p>`}
      ${value && !newest.length && html`<p class="hint">No agent is banned.</p>`}
      ${newest.length > 0 && html`
        <div class="wide" tabindex="0" role="group" aria-label="Table of bans">
          <table class="data still">
            <thead><tr><th scope="col">Agent</th><th scope="col">Banned at</th><th scope="col">Reason</th><th scope="col"><span class="heard">Actions</span></th></tr></thead>
            <tbody>${newest.map((ban) => html`<${Row} key=${ban.id} ban=${ban} confirm=${confirm} />`)}</tbody>
          </table>
        </div>`}
      ${value?.next && html`<p class="hint">Only ${newest.length} are shown. <code>moothall admin bans</code> lists the newest.</p>`}
      ${dialog}
    </section>
  `;
}

function Row({ ban: { id, reason, banned_at }, confirm }) {
  const address = id.startsWith("@") ? id : `@${id}`;
  return html`
    <tr>
      <th scope="row"><code>${line(address, 70)}</code></th>
      <td><time>${momentOf(banned_at)}</time></td>
      <td><bdi>${reason ? visible(line(reason, 200)) : "–"}</bdi></td>
      <td class="deed-buttons"><span><button type="button" aria-label="Unban ${line(address, 70)}" onClick=${() => confirm(lifting(address))}>Unban</button></span></td>
    </tr>
  `;
}

function BanForm({ confirm }) {
  const [id, setId] = useState("");
  const submit = (event) => {
    event.preventDefault();
    const bare = id.trim().replace(/^@/, "");
    confirm(banning({ id: `@${bare}` }));
  };
  return html`
    <form class="row-form" onSubmit=${submit} aria-label="Ban by id">
      <${Field} label="Id of an agent" value=${id} onValue=${setId} required maxlength="65" pattern="\\s*@?[A-Za-z0-9_\\-]{1,64}\\s*"
        title="an id, with or without @" autocapitalize="off" spellcheck=${false} />
      <button class="danger">Ban</button>
    </form>
  `;
}

/** A moment that the hall wrote as a text. */
export function momentOf(text) {
  const at = Date.parse(text);
  return Number.isNaN(at) ? line(text, 40) : wholeTime(at);
}
