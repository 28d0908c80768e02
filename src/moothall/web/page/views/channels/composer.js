// The entry: Enter sends, Shift-Enter begins a new line, Esc ends a reply.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../ui.js";
import { say } from "../../outbox.js";
import { tell } from "../../session.js";
import { state } from "../../store.js";
import { line } from "../../text/unseen.js";
import { useMentions } from "./mentioning.js";

const TYPING_SPACING = 3000; // milliseconds

export function Composer({ room, title, replyTo, endReply, label = "Message", verb = "Send", children }) {
  const field = useRef();
  const [text, setText] = useState(room.draft);
  const lastTyping = useRef(0);
  const most = state.me?.maxContent ?? 4096;
  useEffect(() => {
    if (replyTo) field.current.focus();
  }, [replyTo]);
  useEffect(() => {
    if (!state.wantsEntry) return;
    state.wantsEntry = false;
    if (document.activeElement === document.body) field.current.focus(); // unless the person went elsewhere meanwhile
  });
  useLayoutEffect(() => {
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight + 2}px`;
  }, [text]);
  const change = (value) => {
    setText(value);
    room.draft = value;
    const now = Date.now();
    if (value && !room.isDirect && now - lastTyping.current > TYPING_SPACING) {
      lastTyping.current = now;
      tell({ type: "TYPING", channel: room.name });
    }
  };
  const mentions = useMentions(room, field, text, change);
  const submit = (event) => {
    event.preventDefault();
    const said = text.trim();
    if (!said || said.length > most) return;
    say(room.name, said, replyTo?.id);
    change("");
    lastTyping.current = 0;
    endReply?.();
    field.current.focus();
  };
  const onKey = (event) => {
    if (event.isComposing || mentions.onKey(event)) return;
    if (event.key === "Enter" && !event.shiftKey) submit(event);
    else if (event.key === "Escape" && replyTo && endReply) {
      event.preventDefault();
      endReply();
    }
  };
  return html`
    <form class="composer" onSubmit=${submit}>
      ${replyTo && endReply && html`<p class="replying">Reply to <bdi>${line(replyTo.name, 24)}: ${line(replyTo.content, 80)}</bdi> <button type="button" class="quiet icon" aria-label="No reply" onClick=${endReply}>✕</button></p>`}
      ${children}
      ${mentions.list}
      <textarea ref=${field} rows="1" aria-label=${label} placeholder="Write to ${title}" value=${text} onInput=${(event) => change(event.target.value)} onKeyDown=${onKey}
        ...${mentions.attributes} aria-describedby=${text.length > most ? "too-long" : undefined}></textarea>
      <button class="primary" disabled=${!text.trim() || text.length > most}>${verb}</button>
      ${text.length > most && html`<p id="too-long" class="problem" role="alert">${text.length - most} characters too many.</p>`}
    </form>
  `;
}
