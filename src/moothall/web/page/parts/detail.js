// One thing in full: an agent, a deal, a case, a conversation. Its heading takes the focus when it is opened. Its opener
// gets the focus back.

import { html, useLayoutEffect, useRef } from "../ui.js";
import { link } from "../router.js";
import { line } from "../text/unseen.js";
import { useFocusReturn } from "./focus.js";

/** `view` is where it closes to; `before` stands in front of the heading. */
export function Detail({ label, view, id, heading, before, problem, children }) {
  const title = useRef();
  useFocusReturn();
  useLayoutEffect(() => title.current.focus(), [id]);
  return html`
    <aside class="detail" aria-label=${label}>
      <header>
        ${before}
        <div><h2 ref=${title} tabindex="-1">${heading}</h2><code>${line(id, 70)}</code></div>
        <a class="close" href=${link(view)} aria-label="Close">✕</a>
      </header>
      ${problem && html`<p class="problem" role="status">${problem}</p>`}
      ${children}
    </aside>
  `;
}

export const Status = ({ kind, children }) => html` <span class="status ${kind}">${children}</span>`;
