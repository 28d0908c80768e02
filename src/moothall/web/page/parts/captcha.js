// The question that some halls ask before they let anyone in.

import { html, useState } from "../ui.js";
import { useStore } from "../store.js";
import { Dialog } from "./dialog.js";

export function Captcha() {
  const captcha = useStore((state) => state.captcha);
  const [answer, setAnswer] = useState("");
  if (!captcha) return null;
  const submit = (event) => {
    event.preventDefault();
    setAnswer("");
    captcha.answer(answer);
  };
  return html`
    <${Dialog} title="A question first" onClose=${() => captcha.answer("")}>
      <form class="stack" onSubmit=${submit}>
        <label>${captcha.question}
          <input value=${answer} onInput=${(event) => setAnswer(event.target.value)} autocomplete="off" required />
        </label>
        ${captcha.hint && html`<p class="hint">${captcha.hint}</p>`}
        <div class="buttons"><button class="primary">Answer</button></div>
      </form>
    </${Dialog}>
  `;
}
