// The dialog before a signature: it shows the exact text, and only that text is signed.

import { html, useEffect, useState } from "../ui.js";
import { textOf } from "../proofs/texts.js";
import { send, signer } from "../session.js";
import { Dialog } from "./dialog.js";
import { Exact } from "./words.js";

/** Sign a message over the agentchat wire and send it. Returns the hall's answer. */
export async function sendSigned(message, text) {
  const identity = signer();
  if (!identity) throw new Error("You joined without a key, so you cannot sign.");
  return send({ ...message, sig: await identity.sign(text) });
}

/**
 * `message` is what will be sent, without its signature; undefined while the form is not complete. `action` is the
 * name of the button. `unsigned` says which fields the signature does not cover. `perform(message, text)` signs and sends.
 */
export function SigningDialog({ title, action, message, unsigned, isDangerous, children, onDone, onClose, perform = sendSigned }) {
  const [text, setText] = useState(); // that of the last message for which it is known
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const wanted = JSON.stringify(message);
  useEffect(() => {
    let isLatest = true;
    if (message) textOf(message.type, message).then((found) => isLatest && setText(found));
    else setText(undefined);
    return () => (isLatest = false);
  }, [wanted]);
  const submit = async (event) => {
    event.preventDefault();
    if (!message || isBusy) return;
    setBusy(true);
    setProblem("");
    try {
      const signed = await textOf(message.type, message); // Enter may come before the text of the last letter is shown
      setText(signed);
      const answer = await perform(message, signed);
      onClose();
      onDone?.(answer);
    } catch (error) {
      setProblem(error.message);
      setBusy(false);
    }
  };
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <form class="stack signing" onSubmit=${submit}>
        ${children}
        <div>
          <h3>You will sign</h3>
          ${text !== undefined ? html`<${Exact} text=${text} label="You will sign" />` : html`<p class="hint">Fill in the form to see the text.</p>`}
          ${unsigned && html`<p class="hint">${unsigned}</p>`}
        </div>
        ${problem && html`<p class="problem" role="alert">${problem}</p>`}
        <div class="buttons">
          <button type="button" onClick=${onClose}>Cancel</button>
          <button class=${isDangerous ? "danger" : "primary"} disabled=${!message || isBusy}>${action}</button>
        </div>
      </form>
    </${Dialog}>
  `;
}

/**
 * Buttons that open dialogs. While one is open, all that is behind it is hidden from assistive technology. It stays open
 * until the person or its form closes it, also if its button is gone meanwhile: it may have an error to show.
 */
export function Openers({ actions }) {
  const [opened, setOpened] = useState();
  const chosen = opened && (actions.find(({ name }) => name === opened.name) ?? opened);
  return html`
    ${actions.length > 0 && html`<div class="buttons start" aria-hidden=${chosen ? "true" : undefined}>
      ${actions.map((action) => html`
        <button key=${action.name} type="button" tabindex=${chosen ? "-1" : undefined} class=${action.isPrimary ? "primary" : action.isDangerous ? "danger" : undefined} aria-haspopup="dialog" onClick=${() => setOpened(action)}>${action.name}</button>`)}
    </div>`}
    ${chosen && html`<${chosen.Form} ...${chosen.facts} onClose=${() => setOpened(undefined)} />`}
  `;
}
