// What the person says leaves here: one message a second, as the hall wants it, and each of them once.
//
// A message that was under way when the connection ended may have arrived or not. It is never sent again by itself.

import { Refusal } from "./challenge.js";
import { listen } from "./feed.js";
import { roomNamed } from "./hall.js";
import { isOnline, person, send } from "./session.js";
import { changed, state } from "./store.js";

const SPACING = 1050; // milliseconds; the hall's rate_message is 1/1
const MOST_TRIES = 6; // of a message that the hall finds too fast
const LOOK_AGAIN = 500; // milliseconds, while there is no connection
const MOST_WAITING = 64;

const waiting = [];
let isRunning = false;
let lastLocal = 0;
const sent = new Map(); // own messages with receipts, by id: { room, message }
const MOST_SENT = 500;

/** Say something in a room. It is shown at once, with what becomes of it. */
export function say(roomName, content, replyTo) {
  const room = roomNamed(roomName);
  const message = {
    key: `own-${++lastLocal}`,
    ts: Date.now(),
    from: state.me.id,
    name: state.me.name,
    content,
    isVerified: state.me.isVerified,
    isHuman: true,
    isOwn: true,
    replyTo,
    status: "sending", // then "sent", "failed" or "unknown"; receipts come on top
    receipt: undefined,
    revision: 0,
  };
  room.add(message);
  changed();
  deliver(room, message);
}

/** Try a message again that failed, or about which nothing is known. */
export function sayAgain(roomName, message) {
  const room = roomNamed(roomName);
  room.remove(message);
  say(roomName, message.content, message.replyTo);
}

async function deliver(room, message) {
  const msg = { type: "MSG", to: room.name, content: message.content, receipt: true };
  if (message.replyTo) msg.in_reply_to = message.replyTo;
  try {
    const { msg_id, ts } = await speak(msg);
    message.status = "sent";
    message.ts = ts;
    if (msg_id) remember(room, room.identify(message, msg_id));
  } catch (error) {
    message.status = error instanceof Refusal || error.isUnsent ? "failed" : "unknown";
    message.reason = error.message;
  }
  room.touch(message);
  changed();
}

/** Send a MSG when it is its turn. Returns the ACK. Raises a Refusal, or an error when the connection ends. */
export function speak(msg) {
  if (waiting.length >= MOST_WAITING) return Promise.reject(unsent("Too many messages are waiting. Try again in a minute."));
  return new Promise((resolve, reject) => {
    waiting.push({ msg, resolve, reject, by: person() });
    if (!isRunning) run();
  });
}

const unsent = (words) => Object.assign(new Error(words), { isUnsent: true });

export const isIdle = () => !isRunning;

async function run() {
  isRunning = true;
  while (waiting.length) {
    if (!isOnline()) {
      await pause(LOOK_AGAIN);
      continue;
    }
    const { msg, resolve, reject, by } = waiting.shift();
    if (by !== person()) {
      reject(unsent("You left before this was sent."));
      continue;
    }
    await sendPatiently(msg).then(resolve, reject);
    await pause(SPACING);
  }
  isRunning = false;
}

async function sendPatiently(msg) {
  for (let tries = 1; ; tries++) {
    try {
      return await send(msg);
    } catch (error) {
      if (error.code !== "RATE_LIMITED" || tries >= MOST_TRIES) throw error;
      await pause(SPACING * tries);
    }
  }
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// -- receipts (docs/delivery-receipts.md) ----------------------------------------------------------------

function remember(room, message) {
  sent.set(message.id, { room, message });
  if (sent.size > MOST_SENT) sent.delete(sent.keys().next().value);
}

listen("RECEIPT", ({ msg_id, status, to, of, count, reason }) => {
  const found = sent.get(msg_id);
  if (!found) return;
  const { room, message } = found;
  message.receipt ??= { of, by: {}, counts: {}, reasons: {} };
  message.receipt.of = of;
  if (count === undefined) (message.receipt.by[status] ??= new Set()).add(to);
  else message.receipt.counts[status] = count;
  if (reason) message.receipt.reasons[to] = reason;
  room.touch(message);
  changed();
});

/** How many recipients have had a status. */
export function reached(receipt, status) {
  return Math.max(receipt?.by[status]?.size ?? 0, receipt?.counts[status] ?? 0);
}
