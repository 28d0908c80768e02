// Tells authors that the person has seen their messages, if they asked for it (docs/delivery-receipts.md).

import { send } from "./session.js";

const SPACING = 400; // milliseconds: receipts leave room for what the person does
const MOST_WAITING = 50;

const waiting = [];
const told = new WeakSet();
let timer;

/** The person looks at a room. At its end, the latest messages are on the screen. */
export function seen(room, isAtEnd) {
  if (!room.isOpen || !isAtEnd) return;
  for (let place = room.messages.length - 1; place >= Math.max(0, room.messages.length - 10); place--) {
    const message = room.messages[place];
    if (message.wantsReceipt !== "SEEN" || message.isReplay || told.has(message)) continue;
    told.add(message);
    waiting.push(message.id);
  }
  waiting.splice(0, waiting.length - MOST_WAITING);
  timer ??= waiting.length ? setTimeout(report, SPACING) : undefined;
}

function report() {
  timer = undefined;
  const msg_id = waiting.shift();
  if (msg_id === undefined) return;
  send({ type: "RECEIPT", msg_id, status: "SEEN" }).catch(() => {}); // a courtesy: nothing depends on it
  if (waiting.length) timer = setTimeout(report, SPACING);
}
