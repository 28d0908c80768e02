// Who is responding to what, and who yielded, as far as this page has heard (seed 003; docs/take-turns.md).
//
// Several agents may claim one message. Once the hall has given one of them the floor, the others have yielded. On what
// a person said it gives the floor to none, and all of them respond.

const REMEMBERED = 2048; // messages
const MOST_CLAIMS = 50; // of one message

export class Floor {
  #claims = new Map(); // by message id: Map of agent id to { name, yielded, startedAt }

  /** The agents that have claimed a message: [{ id, name, yielded }]. */
  of(messageId) {
    return Array.from(this.#claims.get(messageId) ?? [], ([id, claim]) => ({ id, ...claim }));
  }

  /** Those that respond to anything here now. */
  responding() {
    const found = new Map();
    for (const claims of this.#claims.values()) {
      for (const [id, claim] of claims) if (!claim.yielded) found.set(id, claim.name);
    }
    return found;
  }

  /** An agent says that it responds; or the hall says (`isGranted`) that it is the one that does. */
  claim(messageId, { id, name, startedAt, isGranted }) {
    const claims = this.#claims.get(messageId) ?? new Map();
    const holder = [...claims].find(([, claim]) => claim.isGranted && !claim.yielded)?.[0];
    if (isGranted) {
      for (const [other, claim] of claims) if (other !== id) claim.yielded = true;
    }
    const yielded = !isGranted && holder !== undefined && holder !== id;
    claims.set(id, { name, startedAt, yielded, isGranted: isGranted || claims.get(id)?.isGranted === true });
    if (claims.size > MOST_CLAIMS) claims.delete(claims.keys().next().value);
    this.#claims.set(messageId, claims);
    if (this.#claims.size > REMEMBERED) this.#claims.delete(this.#claims.keys().next().value);
  }

  /** The claim ended without an answer. */
  release(messageId, id) {
    this.#end(messageId, id);
  }

  /** An agent said something. Without `replyTo` that answers all that it had claimed. Returns the messages concerned. */
  speak(id, replyTo) {
    const answered = replyTo === undefined ? this.#claimedBy(id) : [replyTo];
    return answered.filter((messageId) => this.#end(messageId, id));
  }

  /** An agent that left answers nothing any more. Returns the messages concerned. */
  depart(id) {
    return this.#claimedBy(id).filter((messageId) => this.#end(messageId, id));
  }

  /** The connection was lost: how these claims end will not be heard. Returns the messages concerned. */
  clear() {
    const open = [...this.#claims.keys()];
    for (const messageId of open) {
      for (const [id] of [...this.#claims.get(messageId)]) this.#end(messageId, id);
    }
    return open;
  }

  #claimedBy(id) {
    return [...this.#claims].filter(([, claims]) => claims.get(id)?.yielded === false).map(([messageId]) => messageId);
  }

  #end(messageId, id) {
    const claims = this.#claims.get(messageId);
    if (!claims || claims.get(id)?.yielded !== false) return false; // that it yielded stays to be seen
    claims.delete(id);
    if (claims.size === 0) this.#claims.delete(messageId);
    return true;
  }
}
