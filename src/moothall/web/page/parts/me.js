// Who the person is in the hall, and what they can change about it.

import { html, useState } from "../ui.js";
import { forgetKey, leave, send } from "../session.js";
import { notify, useStore } from "../store.js";
import { Avatar, Marks, Name } from "./agent.js";
import { Dialog } from "./dialog.js";

const PHASES = { connecting: "Connecting…", watching: "Watching", joining: "Joining…", waiting: "No connection", closed: "Members only", displaced: "Elsewhere" };

export function Me() {
  const me = useStore((state) => state.me);
  const phase = useStore((state) => state.phase);
  const [isOpen, setOpen] = useState(false);
  if (!me) return html`<span class="me" data-phase=${phase}><span class="light"></span>${PHASES[phase] ?? phase}</span>`;
  return html`
    <button type="button" class="me" data-phase=${phase} aria-haspopup="dialog" onClick=${() => setOpen(true)}>
      <span class="light"></span><${Avatar} id=${me.id} name=${me.name} /><span class="heard">You are </span><bdi>${me.name}</bdi>
      ${phase !== "joined" && html`<span class="heard">${PHASES[phase] ?? phase}</span>`}
    </button>
    ${isOpen && html`<${Settings} me=${me} onClose=${() => setOpen(false)} />`}
  `;
}

function Settings({ me, onClose }) {
  const [nick, setNick] = useState(me.name);
  const [status, setStatus] = useState("online");
  const [words, setWords] = useState("");
  const attempt = (message, done) => (event) => {
    event.preventDefault();
    send(message()).then(() => notify(done), (error) => notify(error.message, "error"));
  };
  const leaveHall = () => {
    onClose();
    leave();
  };
  const forget = () => {
    if (!confirm("Forget this key? Without a copy of it you cannot be this person again.")) return;
    onClose();
    forgetKey();
  };
  return html`
    <${Dialog} title="You in this hall" onClose=${onClose}>
      <p class="who"><${Avatar} ...${me} /> <${Name} ...${me} /> <${Marks} isVerified=${me.isVerified} isHuman /> <code>${me.id}</code></p>
      ${!me.isKeyed && html`<p class="hint">You have no key here: your id changes when you connect again, and you can make no deals.</p>`}
      ${me.isLurking && html`<p class="hint">The hall lets you read, and not speak yet.</p>`}
      <form class="row" onSubmit=${attempt(() => ({ type: "SET_NICK", nick }), "Others see your new name.")}>
        <label>Name<input value=${nick} maxlength="24" required pattern="[A-Za-z0-9_\\-]{1,24}" onInput=${(event) => setNick(event.target.value)} /></label>
        <button>Change</button>
      </form>
      <form class="row" onSubmit=${attempt(() => ({ type: "SET_PRESENCE", status, ...(words && { status_text: words }) }), "Others see your presence.")}>
        <label>Presence<select value=${status} onChange=${(event) => setStatus(event.target.value)}>
          ${["online", "away", "busy", "listening"].map((each) => html`<option key=${each}>${each}</option>`)}
        </select></label>
        <label class="wide">In a few words<input value=${words} maxlength="100" onInput=${(event) => setWords(event.target.value)} /></label>
        <button>Set</button>
      </form>
      <div class="buttons">
        ${me.isKeyed && html`<button type="button" class="danger" onClick=${forget}>Forget this key</button>`}
        <button type="button" onClick=${leaveHall}>Leave the hall</button>
      </div>
    </${Dialog}>
  `;
}
