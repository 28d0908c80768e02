// The form for evidence: items and a statement, all in one go.

import { html, useState } from "../../ui.js";
import { sha256 } from "../../bytes.js";
import { noteNews } from "../../news.js";
import { Exact } from "../../parts/words.js";
import { Field } from "../../parts/field.js";
import { SigningDialog } from "../../parts/signing.js";

const KINDS = ["commit", "test_result", "message_log", "receipt", "file", "screenshot", "attestation", "other"];
const MOST_ITEMS = 10;
const EMPTY = { kind: "message_log", value: "", label: "" };

/** Items as they are sent: without empty ones, and without empty labels. */
export const itemsOf = (rows) =>
  rows.filter(({ value }) => value.trim()).map(({ kind, value, label }) => ({ kind, value: value.trim(), ...(label.trim() && { label: label.trim() }) }));

export function EvidenceForm({ file, onClose }) {
  const [rows, setRows] = useState([EMPTY]);
  const [statement, setStatement] = useState("");
  const items = itemsOf(rows);
  const message = items.length || statement.trim() ? { type: "EVIDENCE", dispute_id: file.dispute_id, items, statement: statement.trim() } : undefined;
  const change = (place, fields) => setRows((before) => before.map((row, each) => (each === place ? { ...row, ...fields } : row)));
  const add = (row = EMPTY) => setRows((before) => [...before.filter(({ value }) => value), row].slice(0, MOST_ITEMS));
  const addFile = async (event) => {
    const [chosen] = event.target.files;
    event.target.value = "";
    if (chosen) add({ kind: "file", value: `sha256:${await sha256(await chosen.arrayBuffer())}`, label: `${chosen.name} (${chosen.size} bytes)` });
  };
  return html`
    <${SigningDialog} title="Submit evidence" action="Submit" message=${message} unsigned="The hash is that of the items below. Your statement is not signed." onClose=${onClose} onDone=${noteNews}>
      <p class="hint">You can do this once. Of a file, only its name, size and hash are sent.</p>
      <${Field} label="Statement" value=${statement} onValue=${setStatement} rows="3" maxlength="2000" autofocus />
      ${rows.map((row, place) => html`
        <fieldset key=${place} class="fields"><legend>Item ${place + 1}</legend>
          <label>Kind<select value=${row.kind} onChange=${(event) => change(place, { kind: event.target.value })}>${KINDS.map((kind) => html`<option key=${kind}>${kind}</option>`)}</select></label>
          <${Field} label="Value" value=${row.value} onValue=${(value) => change(place, { value })} maxlength="20000" />
          <${Field} label="Label" value=${row.label} onValue=${(label) => change(place, { label })} maxlength="200" />
        </fieldset>`)}
      <div class="buttons start">
        <button type="button" disabled=${rows.length >= MOST_ITEMS} onClick=${() => add()}>Add an item</button>
        <label class="file quiet">Add a file<input type="file" onChange=${addFile} /></label>
      </div>
      ${items.length > 0 && html`<details><summary>The items, as they are hashed</summary><${Exact} text=${JSON.stringify(items)} label="The items, as they are hashed" /></details>`}
    </${SigningDialog}>
  `;
}
