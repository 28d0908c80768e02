// A connection that speaks the agentchat wire as a person: handshake, requests with `ref`, and liveness.
//
// One Line is one WebSocket, from its opening to its end. `session.js` opens the next one.

import { Refusal, challengeText, checkedChallenge } from "./challenge.js";

const PATIENCE = 20000; // milliseconds for an answer
const QUIET = 40000; // milliseconds without a message, before the hall is asked whether it is there
const FEATURES = ["receipts"];

export class Line {
  #socket;
  #waiting = new Map(); // by ref: { resolve, reject, timer }
  #lastRef = 0;
  #greeting; // { resolve, reject } until WELCOME

  /** `onMessage(message)` gets everything but direct answers; `onEnd(reason)` is called once. */
  constructor(url, { onMessage, onEnd }) {
    this.#socket = new WebSocket(url);
    keepAlive(this.#socket);
    this.opened = new Promise((resolve, reject) => {
      this.#socket.addEventListener("open", resolve);
      this.#socket.addEventListener("close", () => reject(new Error("The hall does not answer.")));
    });
    this.opened.catch(() => {}); // for those who only wait for the end
    this.#socket.addEventListener("message", ({ data }) => {
      const message = decode(data);
      if (message && !this.#answers(message)) onMessage(message);
    });
    this.#socket.addEventListener("close", ({ reason }) => {
      const error = new Error(reason || "The connection to the hall was lost.");
      this.#greeting?.reject(error);
      for (const { reject, timer } of this.#waiting.values()) {
        clearTimeout(timer);
        reject(error);
      }
      this.#waiting.clear();
      onEnd(reason);
    });
  }

  /**
   * Identify with a name and a key, or without one. Returns WELCOME. Raises a Refusal.
   * `ask(question, hint)` returns the answer to a captcha.
   */
  async greet({ name, identity, ask }) {
    await this.opened;
    const welcome = new Promise((resolve, reject) => {
      this.#greeting = { resolve, reject, identity, ask };
    });
    this.send({ type: "IDENTIFY", name, kind: "human", features: FEATURES, ...(identity && { pubkey: identity.pem }) });
    try {
      return await welcome;
    } finally {
      this.#greeting = undefined;
    }
  }

  send(message) {
    if (this.#socket.readyState !== WebSocket.OPEN) throw new Error("There is no connection to the hall.");
    this.#socket.send(JSON.stringify(message));
  }

  /** Send a message and return the direct answer to it. Raises a Refusal when the hall refuses. */
  request(message, patience = PATIENCE) {
    const ref = String(++this.#lastRef);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(ref);
        reject(new Error("The hall did not answer in time."));
      }, patience);
      this.#waiting.set(ref, { resolve, reject, timer });
      try {
        this.send({ ...message, ref });
      } catch (error) {
        clearTimeout(timer);
        this.#waiting.delete(ref);
        reject(error);
      }
    });
  }

  close() {
    this.#socket.close(1000);
  }

  #answers(message) {
    if (this.#greeting && this.#greets(message)) return true;
    const waiting = message.ref === undefined ? undefined : this.#waiting.get(message.ref);
    if (!waiting) return message.type === "PONG";
    clearTimeout(waiting.timer);
    this.#waiting.delete(message.ref);
    if (message.type === "ERROR") waiting.reject(new Refusal(message.code, message.message));
    else waiting.resolve(message);
    return message.type === "ACK" || message.type === "ERROR"; // other answers change what is known
  }

  #greets(message) {
    const { resolve, reject } = this.#greeting;
    if (message.type === "WELCOME") resolve(message);
    else if (message.type === "ERROR") reject(new Refusal(message.code, message.message));
    else if (message.type === "CHALLENGE") this.#prove(message).catch(reject);
    else if (message.type === "CAPTCHA_CHALLENGE") this.#solve(message).catch(reject);
    else return false;
    return true;
  }

  async #prove(challenge) {
    const { identity } = this.#greeting;
    await checkedChallenge(challenge, location.host);
    const timestamp = Date.now();
    const signature = await identity.sign(challengeText(challenge, timestamp));
    this.send({ type: "VERIFY_IDENTITY", challenge_id: challenge.challenge_id, signature, timestamp });
  }

  async #solve({ captcha_id, question, hint }) {
    const answer = await this.#greeting.ask(question, hint);
    this.send({ type: "CAPTCHA_RESPONSE", captcha_id, answer });
  }
}

/** Send PING when the hall has been quiet, and close the socket if it stays quiet: the connection may be dead. */
export function keepAlive(socket) {
  let heard = Date.now();
  socket.addEventListener("message", () => (heard = Date.now()));
  const timer = setInterval(() => {
    const quiet = Date.now() - heard;
    if (socket.readyState !== WebSocket.OPEN) return;
    if (quiet > 2 * QUIET) socket.close(4000, "The hall has been silent for too long.");
    else if (quiet > QUIET) socket.send('{"type":"PING"}');
  }, QUIET / 2);
  socket.addEventListener("close", () => clearInterval(timer));
}

/** A message, or undefined for what is not one: unknown frames are ignored, as the wire says. */
export function decode(data) {
  let message;
  try {
    message = JSON.parse(data);
  } catch {
    return undefined;
  }
  return message !== null && typeof message === "object" && typeof message.type === "string" ? message : undefined;
}
