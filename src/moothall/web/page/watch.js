// Those who only look: GET /watch brings what is public in the hall, and takes nothing but PING.

import { decode, keepAlive } from "./wire.js";

export class Watch {
  #socket;

  /** `onMessage(message)` gets all; `onEnd(isRefused)` is called once, with true if the hall never opened the door. */
  constructor(url, { onMessage, onEnd }) {
    let isOpened = false;
    this.#socket = new WebSocket(url);
    keepAlive(this.#socket);
    this.#socket.addEventListener("open", () => (isOpened = true));
    this.#socket.addEventListener("message", ({ data }) => {
      const message = decode(data);
      if (message) onMessage(message);
    });
    this.#socket.addEventListener("close", () => onEnd(!isOpened));
  }

  close() {
    this.#socket.close(1000);
  }
}
