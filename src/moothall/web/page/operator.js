// The admin key, in the memory of this page and nowhere else, and what is asked and done with it.
//
// The key is not part of the state, of a link, or of anything that this page keeps. A reload forgets it.

import { complaint, pages } from "./api.js";
import { address } from "./session.js";
import { changed } from "./store.js";
import { Line } from "./wire.js";

const MOST_DEEDS = 20;
const SENDABLE = /^[\x20-\x7e]+$/; // in a header

let key;
let refused = ""; // why the hall no longer takes the key
let deeds = []; // what was done in this visit, the newest first: { at, text }

export const hasKey = () => key !== undefined;
export const whyLocked = () => refused;
export const doneLately = () => deeds;

/** Use this key from now on, if the hall takes it. Raises an error that people can read. */
export async function enter(given) {
  if (!SENDABLE.test(given)) throw new Error("This page sends keys of plain letters, digits and signs only. Use `moothall admin` with this one.");
  await read("bans?limit=1", given);
  key = given;
  refused = "";
  changed();
}

export function forget(why = "") {
  key = undefined;
  refused = why;
  deeds = [];
  changed();
}

/** The JSON at a path below /api/v1, as the operator sees it. A key that the hall does not take is forgotten. */
export async function ask(path, options) {
  if (!hasKey()) throw new Error("Enter the admin key first.");
  try {
    return await read(path, key, options);
  } catch (error) {
    if (error.status === 401) forget(error.message);
    throw error;
  }
}

async function read(path, secret, { signal } = {}) {
  const answer = await fetch(`/api/v1/${path}`, { signal, cache: "no-store", headers: { Accept: "application/json", "X-Admin-Key": secret } });
  if (!answer.ok) throw Object.assign(new Error(await complaint(answer)), { status: answer.status });
  return answer.json();
}

/** The first pages of a list, as the operator sees it. */
export const askList = (path, most, options) => pages(ask, path, most, options);

/**
 * Send an ADMIN_ message and return the hall's answer. Raises a Refusal. It has a connection of its own, so that
 * a person who only watches can be the operator.
 */
export async function act(message) {
  if (!hasKey()) throw new Error("Enter the admin key first.");
  const line = new Line(address("/"), { onMessage() {}, onEnd() {} });
  try {
    await line.opened;
    return await line.request({ ...message, admin_key: key });
  } finally {
    line.close();
  }
}

/** Remember for this visit what was done. */
export function noteDeed(text) {
  deeds = [{ at: Date.now(), text }, ...deeds].slice(0, MOST_DEEDS);
  changed();
}
