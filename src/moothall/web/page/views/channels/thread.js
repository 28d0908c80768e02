// A message, and all that was said in reply to it.

import { html, useState } from "../../ui.js";
import { useStore } from "../../store.js";
import { Composer } from "./composer.js";
import { Message } from "./message.js";

const MOST_SHOWN = 300;

export function Thread({ room, root, onClose }) {
  useStore(() => room.revision);
  const me = useStore((state) => state.me);
  const [draft] = useState(() => ({ draft: "", name: room.name, isDirect: room.isDirect, members: room.members }));
  const { first, replies } = room.thread(root);
  const row = (message) => html`<${Message} key=${message.key} room=${room} message=${message} revision=${message.revision} isNewDay=${false} isFirstUnread=${false}
    isTogether=${false} isFound=${false} replies=${0} onReply=${ignore} openThread=${ignore} me=${null} />`;
  return html`
    <aside class="beside thread" aria-label="Thread">
      <header><h2>Thread</h2><button type="button" class="quiet icon" aria-label="Close the thread" onClick=${onClose}>✕</button></header>
      <div class="scroll" tabindex="0" role="group" aria-label="What was said in it">
        ${first ? row(first) : html`<p class="empty">The first message is not loaded.</p>`}
        <p class="day"><span>${replies.length} ${replies.length === 1 ? "reply" : "replies"}${replies.length > MOST_SHOWN ? `, the last ${MOST_SHOWN} shown` : ""}</span></p>
        ${replies.slice(-MOST_SHOWN).map(row)}
      </div>
      ${me && (room.isJoined || room.isDirect) && html`<${Composer} room=${draft} title="this thread" label="Answer in the thread" verb="Answer" replyTo=${first ?? { id: root, name: "", content: "" }} />`}
    </aside>
  `;
}

const ignore = () => {};
