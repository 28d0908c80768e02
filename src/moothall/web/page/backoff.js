// How long to wait before the next attempt to connect: longer each time, and never in step with other pages.

const FIRST = 500; // milliseconds
const LONGEST = 15000;

export class Backoff {
  #failures = 0;

  next() {
    const longest = Math.min(LONGEST, FIRST * 2 ** this.#failures++);
    return longest * (0.5 + Math.random() / 2);
  }

  succeeded() {
    this.#failures = 0;
  }
}
