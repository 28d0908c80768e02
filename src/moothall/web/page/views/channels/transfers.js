// Files under way between the person and one agent, and the ways to offer some: a button, drag and drop, the clipboard.

import { html, useState } from "../../ui.js";
import { nameOf } from "../../hall.js";
import { dismiss, offerFiles, transfersWith } from "../../files/transfers.js";
import { savedName } from "../../files/names.js";
import { humanSize } from "../../files/slurp.js";
import { state, useStore } from "../../store.js";
import { line, visible } from "../../text/unseen.js";
import { Dialog } from "../../parts/dialog.js";
import { saveBlob } from "../../parts/saving.js";

const WORDS = {
  packing: "Reading the files", offered: "Offered", sending: "On its way", sent: "Waiting for the receiver to check", delivered: "Delivered, and its hash is right",
  rejected: "Declined", failed: "Failed", cancelled: "Cancelled", receiving: "Arriving", checking: "Checking the hash", received: "Here, and its hash is right", declined: "Declined",
};
const MOST_NAMES = 4;

export function Transfers({ room }) {
  const revision = useStore(() => transfersWith(room.name).reduce((sum, transfer) => sum + transfer.revision + 1, 0));
  if (!revision) return null;
  return html`<ul class="transfers" aria-label="Files">${transfersWith(room.name).map((transfer) => html`<${Transfer} key=${`${transfer.isOutgoing}${transfer.tid}`} transfer=${transfer} revision=${transfer.revision} />`)}</ul>`;
}

function Transfer({ transfer }) {
  const { status, files, more = 0, isOutgoing } = transfer;
  const names = files.slice(0, MOST_NAMES).map(({ name }) => line(name, 40)).join(", ");
  const rest = files.length + more - MOST_NAMES;
  const isMoving = ["sending", "receiving"].includes(status);
  return html`
    <li class=${status}>
      <span class="sign" aria-hidden="true">${isOutgoing ? "↑" : "↓"}</span>
      <div>
        <p><bdi class="names">${names}${rest > 0 ? ` and ${rest} more` : ""}</bdi> <span class="hint">${humanSize(transfer.totalSize)}</span></p>
        <p class="hint" role="status">${!isOutgoing && status === "offered" ? `${line(nameOf(transfer.peer), 24)} offers this. Names and sizes are its word.` : WORDS[status]}${transfer.reason ? `: ${line(transfer.reason, 160)}` : ""}</p>
        ${isMoving && html`<progress max="1" value=${transfer.progress} aria-label="Progress"></progress>`}
        ${status === "received" && html`<${Received} transfer=${transfer} />`}
      </div>
      <span class="buttons">
        ${!isOutgoing && status === "offered" && html`<button type="button" class="primary" onClick=${() => transfer.accept()}>Receive</button><button type="button" onClick=${() => transfer.decline()}>Decline</button>`}
        ${((isOutgoing && !transfer.isOver && status !== "packing") || status === "receiving") && html`<button type="button" onClick=${() => transfer.cancel()}>Cancel</button>`}
        ${transfer.isOver && html`<button type="button" class="quiet icon" aria-label="Remove from the list" onClick=${() => dismiss(transfer)}>✕</button>`}
      </span>
    </li>
  `;
}

function Received({ transfer }) {
  const save = ({ path, bytes }) => saveBlob(savedName(path), new Blob([bytes], { type: "application/octet-stream" }));
  return html`<ul class="received">${transfer.received.map((entry, place) => html`
    <li key=${place}><bdi>${visible(line(entry.path, 120))}</bdi>
      ${entry.fault ? html`<span class="problem">left out: ${entry.fault}</span>` : html`<span class="hint">${humanSize(entry.bytes.length)}</span> <button type="button" onClick=${() => save(entry)}>Save<span class="heard"> ${line(entry.path, 60)}</span></button>`}
    </li>`)}</ul>`;
}

/** What drops files into a conversation: handlers for its element, and the dialog that asks for the receiver. */
export function useFileDrop(room) {
  const [isOver, setOver] = useState(false);
  const [pending, setPending] = useState();
  const offer = (files) => {
    if (!files.length || !state.me) return;
    if (room.isDirect) offerFiles(room.name, files);
    else setPending(files);
  };
  const hasFiles = (event) => state.me && [...(event.dataTransfer?.types ?? [])].includes("Files");
  const handlers = {
    onDragOver: (event) => hasFiles(event) && (event.preventDefault(), setOver(true)),
    onDragLeave: (event) => event.currentTarget.contains(event.relatedTarget) || setOver(false),
    onDrop: (event) => {
      setOver(false);
      if (!hasFiles(event)) return;
      event.preventDefault();
      offer([...event.dataTransfer.files]);
    },
    onPaste: (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length) event.preventDefault();
      offer(files);
    },
  };
  const overlay = html`
    ${isOver && html`<p class="drop" aria-hidden="true">${room.isDirect ? `Drop files for ${line(nameOf(room.name), 24)}` : "Drop files, and choose who gets them"}</p>`}
    ${pending && html`<${Receiver} room=${room} files=${pending} onClose=${() => setPending(undefined)} />`}`;
  return { handlers, overlay, offer };
}

function Receiver({ room, files, onClose }) {
  const others = [...room.members].filter((id) => id !== state.me?.id && !state.agents.get(id)?.via);
  const [chosen, setChosen] = useState(others[0]);
  const submit = (event) => {
    event.preventDefault();
    if (chosen) offerFiles(chosen, files);
    onClose();
    if (chosen) location.hash = `#/channels/${chosen}`;
  };
  return html`
    <${Dialog} title="Who gets ${files.length === 1 ? line(files[0].name, 40) : `these ${files.length} files`}?" onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        ${others.length
          ? html`<label>Agent<select value=${chosen} onChange=${(event) => setChosen(event.target.value)}>${others.map((id) => html`<option key=${id} value=${id}>${line(nameOf(id), 40)} ${id}</option>`)}</select></label>
            <p class="hint">Files go to one agent. It is asked first.</p>
            <div class="buttons"><button class="primary">Offer</button></div>`
          : html`<p>No agent here can take files.</p>`}
      </form>
    </${Dialog}>
  `;
}

/** The button beside the entry. */
export function FileButton({ onFiles }) {
  const choose = (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    onFiles(files);
  };
  return html`<label class="file quiet" title="Attach files"><svg class="glyph" viewBox="0 0 20 20" aria-hidden="true"><path d="m15.5 9.5-5.6 5.6a3.6 3.6 0 0 1-5.1-5.1l6.2-6.2a2.4 2.4 0 0 1 3.4 3.4l-6 6a1.2 1.2 0 0 1-1.7-1.7l5.3-5.3" /></svg><input type="file" multiple aria-label="Attach files" onChange=${choose} /></label>`;
}
