// One conversation, a channel or the talk with one agent: its messages in order, each of them once.

import { Floor } from "./floor.js";

export const MOST_KEPT = 20000; // messages
const SHARE_DROPPED = 0.1; // at once
const BESIDES = 200; // what a message takes besides its text, in characters
const TYPING_LASTS = 6000; // milliseconds

const sizeOf = ({ content = "" }) => BESIDES + content.length;

export class Room {
  constructor(name) {
    this.name = name; // "#channel" or "@agent"
    this.messages = [];
    this.members = new Set(); // ids
    this.floor = new Floor();
    this.isJoined = false;
    this.isOpen = false; // the person looks at it now
    this.unread = 0;
    this.mentions = 0;
    this.knownUntil = Infinity; // what is replayed and later than this is news
    this.unreadFrom = undefined; // the key of the first unread message, while the room is read
    this.draft = "";
    this.revision = 0;
    this.layout = 0; // changes when a message is not added at the end: places in the list have moved
    this.typing = new Map(); // by id: { name, until }
    this.byKey = new Map();
    this.replies = new Map(); // by message id: [message]
    this.size = 0; // characters, about
  }

  get isDirect() {
    return this.name.startsWith("@");
  }

  /** The new message, or undefined if it is here already. */
  add(message) {
    if (this.byKey.has(message.key)) return undefined;
    const last = this.messages.at(-1);
    const place = !last || last.ts <= message.ts || !message.isReplay ? this.messages.length : this.#placeOf(message.ts);
    if (place < this.messages.length) this.layout++;
    this.messages.splice(place, 0, message);
    this.#index(message);
    if (this.messages.length > MOST_KEPT) this.dropOldest();
    this.revision++;
    return message;
  }

  find(messageId) {
    return this.byKey.get(messageId);
  }

  /** A message of the person's own has got its id. Returns the one that stays: some halls have sent it back already. */
  identify(message, messageId) {
    this.byKey.delete(message.key);
    const echo = this.byKey.get(messageId);
    if (echo) {
      this.remove(message);
      echo.status = message.status;
      this.touch(echo);
      return echo;
    }
    message.id = message.key = messageId;
    this.byKey.set(messageId, message);
    this.touch(message);
    return message;
  }

  remove(message) {
    const place = this.messages.indexOf(message);
    if (place >= 0) this.messages.splice(place, 1);
    this.byKey.delete(message.key);
    this.#unlink(message);
    this.layout++;
    this.revision++;
  }

  /** What is shown of a message has changed. */
  touch(message) {
    if (message) message.revision++;
    this.revision++;
  }

  touchAll(messageIds) {
    for (const messageId of messageIds) this.touch(this.find(messageId));
  }

  /** The messages of a thread: the first one, and all replies to it and to each other, in order. */
  thread(messageId) {
    const root = this.rootOf(messageId);
    const found = [];
    const waiting = [...(this.replies.get(root) ?? [])];
    const seen = new Set();
    while (waiting.length) {
      const message = waiting.shift();
      if (seen.has(message)) continue; // ids are the senders' word: replies may form a circle
      seen.add(message);
      found.push(message);
      if (message.id) waiting.push(...(this.replies.get(message.id) ?? []));
    }
    found.sort((one, other) => one.ts - other.ts);
    return { root, first: this.find(root), replies: found };
  }

  rootOf(messageId) {
    const seen = new Set();
    let root = messageId;
    for (let message = this.find(root); message?.replyTo && !seen.has(root); message = this.find(root)) {
      seen.add(root);
      root = message.replyTo;
    }
    return root;
  }

  types(id, name, now) {
    this.typing.set(id, { name, until: now + TYPING_LASTS });
    this.revision++;
  }

  /** The names of those who type now. */
  typists(now) {
    for (const [id, { until }] of this.typing) if (until <= now) this.typing.delete(id);
    return [...this.typing.values()].map(({ name }) => name);
  }

  read() {
    if (this.unread || this.mentions) this.revision++;
    this.unread = this.mentions = 0;
  }

  #index(message) {
    this.size += sizeOf(message);
    this.byKey.set(message.key, message);
    if (!message.replyTo) return;
    if (!this.replies.has(message.replyTo)) this.replies.set(message.replyTo, []);
    this.replies.get(message.replyTo).push(message);
    this.touch(this.find(message.replyTo));
  }

  #unlink(message) {
    this.size -= sizeOf(message);
    const siblings = this.replies.get(message.replyTo);
    if (!siblings) return;
    const left = siblings.filter((other) => other !== message);
    if (left.length) this.replies.set(message.replyTo, left);
    else this.replies.delete(message.replyTo);
  }

  dropOldest() {
    for (const message of this.messages.splice(0, Math.ceil(SHARE_DROPPED * this.messages.length))) {
      this.byKey.delete(message.key);
      this.#unlink(message);
    }
    this.layout++;
  }

  #placeOf(ts) {
    let low = 0;
    let high = this.messages.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.messages[middle].ts <= ts) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
