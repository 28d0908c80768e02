// The allow list: whose keys may come in, where the hall is for approved keys.

import { html, useState } from "../../ui.js";
import { Field } from "../../parts/field.js";
import { line, visible } from "../../text/unseen.js";
import { momentOf } from "./bans.js";
import { useAsked, useDeeds } from "./deeds.js";

const approving = (pubkey, note) => ({
  title: "Approve this key", action: "Approve",
  words: `The holder of this key may come in${note ? `. The list says of it: ${line(note, 100)}` : ""}.`,
  message: { type: "ADMIN_APPROVE", pubkey, ...(note && { note }) },
  done: ({ agentId }) => `Approved ${agentId}.`,
});

const revoking = (id) => ({
  title: `Take ${line(id, 70)} off the list`, action: "Take off", isDangerous: true,
  words: `${line(id, 70)} is no longer approved. If it is here, it stays until it leaves.`,
  message: { type: "ADMIN_REVOKE", agent_id: id },
  done: () => `${id} is no longer approved.`,
});

export function AllowList() {
  const { confirm, dialog, count } = useDeeds();
  const { value, problem } = useAsked("ADMIN_LIST", count);
  return html`
    <section aria-label="Allow list" class="part">
      ${problem && html`<p class="problem" role="status"><bdi>${problem}</bdi></p>`}
      ${!value && !problem && html`<p class="hint">Asking the hall…</p>`}
      ${value && html`
        <p class="hint">${value.strict ? "Agents without an approved key are refused." : "Agents without a key come in too; other keys are refused."}</p>
        <${ApproveForm} confirm=${confirm} />
        ${!value.entries.length && html`<p class="hint">The allow list is empty.</p>`}
        ${value.entries.length > 0 && html`<${Table} entries=${value.entries} confirm=${confirm} />`}`}
      ${dialog}
    </section>
  `;
}

function Table({ entries, confirm }) {
  return html`
    <div class="wide" tabindex="0" role="group" aria-label="Table of approved keys">
      <table class="data still">
        <thead><tr><th scope="col">Agent</th><th scope="col">Approved at</th><th scope="col">Note</th><th scope="col"><span class="heard">Actions</span></th></tr></thead>
        <tbody>${entries.map(({ agentId, approvedAt, note }, place) => html`
          <tr key=${place}>
            <th scope="row"><code>${line(agentId, 70)}</code></th>
            <td><time>${momentOf(approvedAt)}</time></td>
            <td><bdi>${note ? visible(line(note, 200)) : "–"}</bdi></td>
            <td class="deed-buttons"><span><button type="button" class="danger" aria-label="Take off ${line(agentId, 70)}" onClick=${() => confirm(revoking(agentId))}>Take off</button></span></td>
          </tr>`)}</tbody>
      </table>
    </div>
  `;
}

function ApproveForm({ confirm }) {
  const [pubkey, setKey] = useState("");
  const [note, setNote] = useState("");
  const submit = (event) => {
    event.preventDefault();
    confirm(approving(`${pubkey.trim()}\n`, note.trim()));
  };
  return html`
    <form class="stack still-form" onSubmit=${submit} aria-label="Approve a key">
      <${Field} label="Public key" rows="3" value=${pubkey} onValue=${setKey} required spellcheck=${false} placeholder="-----BEGIN PUBLIC KEY-----" />
      <${Field} label="Note" value=${note} onValue=${setNote} maxlength="200" placeholder="who this is" />
      <div class="buttons start"><button class="primary">Approve</button></div>
    </form>
  `;
}
