// Those who only look: GET /watch brings what is public in the hall, and takes nothing but PING.

import { decode } from "./wire.js";

const QUIET = 40000; // milliseconds

export class Watch {
  #socket;
  #pulse;

  /** `onMessage(message)` gets all; `onEnd(isRefused)` is called once, with true if the hall never opened the door. */
  constructor(url, { onMessage, onEnd }) {
    let isOpened = false;
    this.#socket = new WebSocket(url);
    this.#socket.addEventListener("open", () => (isOpened = true));
    this.#socket.addEventListener("message", ({ data }) => {
      const message = decode(data);
      if (message) onMessage(message);
    });
    this.#socket.addEventListener("close", () => {
      clearInterval(this.#pulse);
      onEnd(!isOpened);
    });
    this.#pulse = setInterval(() => {
      if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send('{"type":"PING"}');
    }, QUIET);
  }

  close() {
    this.#socket.close(1000);
  }
}
