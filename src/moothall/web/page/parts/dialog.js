// A dialog that keeps the focus while it is open, and gives it back. Esc and the backdrop close it.

import { html, useLayoutEffect, useRef } from "../ui.js";
import { useFocusReturn } from "./focus.js";

export function Dialog({ title, onClose, children }) {
  const element = useRef();
  useFocusReturn();
  useLayoutEffect(() => element.current.showModal(), []); // before the next key, which is meant for the dialog
  const onClick = (event) => event.target === element.current && onClose();
  return html`
    <dialog ref=${element} class="dialog" aria-label=${title} onClose=${onClose} onClick=${onClick}>
      <div class="bar"><h2>${title}</h2><button type="button" class="quiet icon" aria-label="Close" onClick=${onClose}>✕</button></div>
      ${children}
    </dialog>
  `;
}
