// New messages for people who hear the page. The list itself is not read out: scrolling in it changes its rows too.

import { html, useEffect, useState } from "../../ui.js";
import { line } from "../../text/unseen.js";

const SPACING = 1500; // milliseconds between two announcements
const heard = new WeakMap(); // how many messages of a room were told, or were there before

let tell = () => {};
let timer;

/** Tell what is new in a room, soon, and not more often than people can listen. */
export function announce(room) {
  if (!heard.has(room)) heard.set(room, room.messages.at(-1)?.key);
  timer ??= setTimeout(() => {
    timer = undefined;
    const fresh = newest(room, heard.get(room));
    heard.set(room, room.messages.at(-1)?.key);
    if (fresh.length === 1) tell(`${line(fresh[0].name, 24)}: ${line(fresh[0].content, 160)}`);
    else if (fresh.length > 1) tell(`${fresh.length} new in ${room.name}. Last, ${line(fresh.at(-1).name, 24)}: ${line(fresh.at(-1).content, 100)}`);
  }, SPACING);
}

function newest(room, lastKey) {
  const fresh = [];
  for (let place = room.messages.length - 1; place >= 0 && fresh.length < 100; place--) {
    const message = room.messages[place];
    if (message.key === lastKey) break;
    if (!message.isOwn && !message.isReplay && !message.isService) fresh.unshift(message);
  }
  return fresh;
}

export function Announcer() {
  const [text, setText] = useState("");
  useEffect(() => {
    tell = setText;
    return () => (tell = () => {});
  }, []);
  return html`<p class="heard" aria-live="polite" aria-atomic="true">${text}</p>`;
}
