// Files that an agent offers to the person: taken in chunks, joined, and unpacked if their hash is right.

import { sha256 } from "../bytes.js";
import { speak } from "../outbox.js";
import { isOnline } from "../session.js";
import { changed } from "../store.js";
import { encode, ranges, reasonOf, trimmed } from "./control.js";
import { fault } from "./names.js";
import { unpack } from "./slurp.js";

const TIMEOUT = 120000; // milliseconds from accept to complete (seed 001, file transfer)
const ASK_AGAIN = 10000; // milliseconds without a chunk, before a sender that can resume is asked again
const MORE = 4 * 1024 * 1024; // characters beyond twice the offered size: names and markers

export class Receiving {
  status = "offered"; // then "receiving", "checking", and an end: "received", "declined", "failed", "cancelled"
  reason = "";
  revision = 0;
  received = []; // [{ path, bytes }] or [{ path, fault }]
  #chunks = [];
  #here = 0;
  #size = 0;
  #complete; // the hash that `complete` names
  #moved = 0;

  constructor(from, offer, now = Date.now()) {
    Object.assign(this, trimmed(offer));
    this.isOutgoing = false;
    this.peer = from;
    this.offeredAt = now;
  }

  get isOver() {
    return ["received", "declined", "failed", "cancelled"].includes(this.status);
  }

  get progress() {
    return this.#here / this.chunks;
  }

  async accept() {
    if (this.status !== "offered") return;
    this.#become("receiving");
    const began = Date.now();
    this.#chunks = new Array(this.chunks);
    try {
      await this.#ask();
      while (this.status === "receiving") {
        await new Promise((resolve) => setTimeout(resolve, 1000));
        if (this.status !== "receiving") break;
        if (Date.now() - began > TIMEOUT) this.#give("failed", `${this.chunks - this.#here} of ${this.chunks} chunks did not arrive in time`);
        else if (this.resume && isOnline() && Date.now() - this.#moved > ASK_AGAIN) await this.#ask(true);
      }
    } catch (error) {
      this.#end("failed", error.message);
    }
  }

  decline() {
    if (this.status !== "offered") return;
    this.#end("declined");
    this.#say({ _ft: "reject", tid: this.tid }).catch(() => {});
  }

  cancel() {
    if (this.status === "receiving") this.#give("cancelled", "cancelled by the receiver");
  }

  hear(message) {
    if (message._ft === "cancel" && (this.status === "receiving" || this.status === "offered")) this.#end("cancelled", reasonOf(message));
    if (this.status !== "receiving") return;
    if (message._ft === "complete") this.#complete = (message.sha256 ?? this.sha256).toLowerCase();
    else if (message._ft === "chunk") this.#take(message);
    if (this.#here === this.chunks && this.#complete) this.#check();
  }

  #take({ idx, total, data }) {
    if (total !== this.chunks || idx >= this.chunks || this.#chunks[idx] !== undefined) return;
    this.#size += data.length;
    if (this.#size > 2 * this.totalSize + MORE) return this.#give("failed", "more data than was offered");
    this.#chunks[idx] = data;
    this.#here++;
    this.#moved = Date.now();
    this.#touch();
  }

  async #check() {
    this.#become("checking");
    const archive = this.#chunks.join("");
    this.#chunks = [];
    if ((await sha256(new TextEncoder().encode(archive))) !== this.#complete) return this.#give("failed", "hash mismatch");
    this.received = unpack(archive).map((entry) => ({ ...entry, fault: fault(entry.path) ?? entry.fault }));
    this.#become("received");
    return this.#say({ _ft: "ack", tid: this.tid, ok: true }).catch(() => {});
  }

  #ask(isAgain = false) {
    this.#moved = Date.now();
    const have = isAgain ? { have: ranges([...this.#chunks.keys()].filter((index) => this.#chunks[index] !== undefined)) } : {};
    return this.#say({ _ft: "accept", tid: this.tid, ...(this.resume && { resume: true, ...have }) });
  }

  /** End it, and tell the sender why. */
  #give(status, error) {
    this.#end(status, error);
    this.#say({ _ft: "ack", tid: this.tid, ok: false, error }).catch(() => {});
  }

  #say(message) {
    return speak({ type: "MSG", to: this.peer, content: encode(message) });
  }

  #become(status) {
    this.status = status;
    this.#touch();
  }

  #end(status, reason = "") {
    if (this.isOver) return;
    this.#chunks = [];
    this.reason = reason;
    this.#become(status);
  }

  #touch() {
    this.revision++;
    changed();
  }
}
