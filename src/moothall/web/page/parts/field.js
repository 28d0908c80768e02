// A field of a form with its label: one line, or several with `rows`.

import { html } from "../ui.js";

export function Field({ label, value, onValue, rows, hint, ...attributes }) {
  const onInput = (event) => onValue(event.target.value);
  return html`
    <label>${label}${rows
      ? html`<textarea rows=${rows} value=${value} onInput=${onInput} ...${attributes}></textarea>`
      : html`<input value=${value} onInput=${onInput} autocomplete="off" ...${attributes} />`}
      ${hint && html`<span class="hint">${hint}</span>`}
    </label>
  `;
}
