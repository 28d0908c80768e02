// A dialog that keeps the focus while it is open, and gives it back. Esc and the backdrop close it.

import { html, useEffect, useRef } from "../ui.js";

export function Dialog({ title, onClose, children }) {
  const element = useRef();
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const onClick = (event) => event.target === element.current && onClose();
  return html`
    <dialog ref=${element} class="dialog" aria-label=${title} onClose=${onClose} onClick=${onClick}>
      <div class="bar"><h2>${title}</h2><button type="button" class="quiet icon" aria-label="Close" onClick=${onClose}>✕</button></div>
      ${children}
    </dialog>
  `;
}
