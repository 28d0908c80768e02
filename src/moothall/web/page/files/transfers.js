// All transfers of this page: which message belongs to which, and how many there may be.

import { listen } from "../feed.js";
import { changed, notify, state } from "../store.js";
import { nameOf, roomNamed, setAside } from "../hall.js";
import { decode, MOST_BYTES } from "./control.js";
import { isIdle } from "../outbox.js";
import { Receiving } from "./receiving.js";
import { Sending } from "./sending.js";
import { humanSize } from "./slurp.js";

const MOST_KEPT = 64;
const MOST_OFFERS = 8; // of one sender

const keyOf = (peer, tid, isOutgoing) => `${isOutgoing ? "to" : "from"} ${peer} ${tid}`;

export const transfersWith = (peer) => [...state.transfers.values()].filter((transfer) => transfer.peer === peer);

/** Offer files of the person's own to an agent. */
export function offerFiles(peer, files) {
  const transfer = new Sending(peer, files);
  keep(transfer);
  transfer.run(files);
}

export function dismiss(transfer) {
  state.transfers.delete(keyOf(transfer.peer, transfer.tid, transfer.isOutgoing));
  changed();
}

function keep(transfer) {
  state.transfers.set(keyOf(transfer.peer, transfer.tid, transfer.isOutgoing), transfer);
  const all = [...state.transfers];
  const over = all.find(([, each]) => !each.isOutgoing && each.status === "offered") ?? all.find(([, each]) => each.isOver); // what was received stays longest
  if (all.length > MOST_KEPT && over) state.transfers.delete(over[0]);
  roomNamed(transfer.peer).revision++;
  changed();
}

/** Take a message of a transfer. False if it is chat. */
function hearTransfer({ from, content }) {
  const found = decode(content);
  if (!found) return false;
  const { message } = found;
  if (!message || from === state.me?.id) return true;
  if (message._ft === "offer") hearOffer(from, message);
  else {
    const isForSender = ["accept", "reject", "ack"].includes(message._ft);
    state.transfers.get(keyOf(from, message.tid, isForSender))?.hear(message);
  }
  return true;
}

function hearOffer(from, offer) {
  const waiting = transfersWith(from).filter((transfer) => !transfer.isOutgoing && transfer.status === "offered");
  if (state.transfers.has(keyOf(from, offer.tid, false)) || waiting.length >= MOST_OFFERS) return;
  const transfer = new Receiving(from, offer);
  if (offer.totalSize > MOST_BYTES) {
    if (isIdle()) transfer.decline(); // what the person says does not wait for it
    return;
  }
  keep(transfer);
  const room = roomNamed(from);
  if (!room.isOpen) {
    room.unread++;
    room.mentions++;
  }
  notify(`${nameOf(from)} offers you ${transfer.files.length + transfer.more} files, ${humanSize(transfer.totalSize)}.`);
}

setAside(hearTransfer);
listen("FILE_CHUNK", hearTransfer);
