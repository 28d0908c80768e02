// Files that the person sends to one agent: offered, and sent in chunks when that agent accepts.

import { hex, sha256 } from "../bytes.js";
import { speak } from "../outbox.js";
import { isOnline, send } from "../session.js";
import { changed, state } from "../store.js";
import { encode, encodeOffer, indicesOf, MOST_BYTES, reasonOf } from "./control.js";
import { cut, humanSize, pack } from "./slurp.js";

const SPACING = 200; // milliseconds between chunks (agentchat wire 15.2)
const STANDSTILL = 120000; // milliseconds without a chunk taken or an answer
const OFFER_LASTS = 1800000;
const REPEAT_COMPLETE = 10000; // to a receiver that can resume: its `ack` may be lost
const MOST_ROUNDS = 5; // how often all chunks may be asked for

export class Sending {
  status = "packing"; // then "offered", "sending", "sent", and an end: "delivered", "rejected", "failed", "cancelled"
  reason = "";
  revision = 0;
  #chunks = [];
  #missing = []; // descending: the next one is the last
  #taken = 0;
  #moved = Date.now();
  #resumes = false;
  #answered; // wakes up what waits for an answer

  constructor(to, files) {
    this.isOutgoing = true;
    this.peer = to;
    this.tid = hex(crypto.getRandomValues(new Uint8Array(8)));
    this.files = files.map(({ name, size }) => ({ name, size }));
    this.totalSize = files.reduce((sum, { size }) => sum + size, 0);
  }

  get isOver() {
    return ["delivered", "rejected", "failed", "cancelled"].includes(this.status);
  }

  get progress() {
    return this.#chunks.length ? 1 - this.#missing.length / this.#chunks.length : 0;
  }

  async run(files) {
    try {
      if (this.totalSize > MOST_BYTES) throw new Error(`${humanSize(this.totalSize)} is more than the ${humanSize(MOST_BYTES)} of a transfer.`);
      await this.#offer(files);
      await this.#deliver();
    } catch (error) {
      this.#end("failed", error.message);
    }
  }

  async #offer(files) {
    const read = await Promise.all(files.map(async (file) => ({ name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) })));
    const archive = await pack(read);
    this.digest = await sha256(new TextEncoder().encode(archive));
    this.#chunks = cut(archive);
    this.#missing = this.#chunks.map((_, index) => this.#chunks.length - 1 - index);
    const offer = { _ft: "offer", tid: this.tid, files: this.files, totalSize: this.totalSize, sha256: this.digest, chunks: this.#chunks.length, senderNick: state.me.name, resume: true };
    await this.#say(encodeOffer(offer, state.me.maxContent));
    this.#become("offered");
  }

  async #deliver() {
    const offered = Date.now();
    let completed = 0;
    while (!this.isOver) {
      if (this.status === "sending" && this.#missing.length) await this.#sendChunk();
      else if (this.status === "sending") this.#become("sent");
      else if (this.status === "sent" && (!completed || (this.#resumes && Date.now() - completed > REPEAT_COMPLETE))) {
        await this.#say(encode({ _ft: "complete", tid: this.tid, sha256: this.digest }));
        completed = Date.now();
      } else await this.#wait(1000);
      if (this.status === "sending") completed = 0;
      if (this.status === "offered" && Date.now() - offered > OFFER_LASTS) this.#end("failed", "There was no answer to the offer.");
      if (this.status !== "offered" && Date.now() - this.#moved > STANDSTILL) this.#end("failed", "The receiver does not answer.");
    }
  }

  async #sendChunk() {
    const idx = this.#missing.at(-1);
    const content = JSON.stringify({ _ft: "chunk", tid: this.tid, idx, total: this.#chunks.length, data: this.#chunks[idx] });
    try {
      await send({ type: "FILE_CHUNK", to: this.peer, content }, 60000);
    } catch (error) {
      if (error.code !== "RATE_LIMITED" && isOnline()) throw error;
      await this.#wait(1000); // too fast, or no connection: this chunk again
      return;
    }
    if (this.#missing.at(-1) === idx) this.#missing.pop();
    this.#moved = Date.now();
    if (++this.#taken > MOST_ROUNDS * this.#chunks.length) this.#end("failed", "The receiver asks for the same chunks again and again.");
    this.#touch();
    await this.#wait(SPACING);
  }

  hear(message) {
    if (this.isOver) return;
    if (message._ft === "reject") this.#end("rejected", reasonOf(message));
    else if (message._ft === "ack") this.#end(message.ok ? "delivered" : "failed", reasonOf(message));
    else if (message._ft === "accept") this.#accepted(message);
    this.#answered?.();
  }

  #accepted({ have, resume }) {
    const isFirst = this.status === "offered";
    if (!isFirst && typeof have !== "string") return; // the first one again
    const here = indicesOf(have, this.#chunks.length);
    this.#missing = this.#chunks.map((_, index) => index).filter((index) => !here.has(index)).reverse();
    this.#resumes = resume === true;
    if (isFirst || this.#missing.length) this.#moved = Date.now();
    this.#become("sending");
  }

  cancel() {
    if (this.isOver) return;
    this.#end("cancelled");
    this.#say(encode({ _ft: "cancel", tid: this.tid, reason: "cancelled by the sender" })).catch(() => {});
  }

  #say(content) {
    return speak({ type: "MSG", to: this.peer, content });
  }

  #wait(milliseconds) {
    return new Promise((resolve) => {
      this.#answered = resolve;
      setTimeout(resolve, milliseconds);
    });
  }

  #become(status) {
    this.status = status;
    this.#touch();
  }

  #end(status, reason = "") {
    if (this.isOver) return;
    this.reason = reason;
    this.#chunks = this.#chunks.map(() => ""); // up to 50 MB
    this.#become(status);
  }

  #touch() {
    this.revision++;
    changed();
  }
}
