// The one connection of the page: as a watcher, until a name is chosen; then as that person, for as long as they stay.

import { Backoff } from "./backoff.js";
import { Refusal } from "./challenge.js";
import { publish } from "./feed.js";
import { forgetPresence, roomNamed } from "./hall.js";
import * as identities from "./identity.js";
import * as memory from "./memory.js";
import { changed, notify, state } from "./store.js";
import { Watch } from "./watch.js";
import { Line } from "./wire.js";

const MOST_JOINED = 40; // channels entered at once: a hall takes 60 frames in ten seconds
const LOOK_AGAIN = 5000; // milliseconds; no message tells members of channels that others make
const FINAL = new Set(["BANNED", "NOT_ALLOWED", "VERIFICATION_FAILED", "INVALID_NAME"]); // trying again does not help

const backoff = new Backoff();
let line; // the Line of a person who has joined
let isReady = false; // to speak on it
let watch;
let identity;
let wanted; // { name, identity } of a person who stays
let former; // the identity of a person whose stay the hall ended
let retry;

export const address = (path) => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;

function enterPhase(phase, facts = {}) {
  Object.assign(state, { phase, trouble: "", retryAt: 0 }, facts);
  changed();
}

/** Begin: as the person who was here before, or as a watcher. */
export async function start() {
  setInterval(() => isOnline() && document.visibilityState === "visible" && send({ type: "LIST_CHANNELS" }).catch(() => {}), LOOK_AGAIN); // if one fails, the next one follows
  addEventListener("online", () => state.phase === "waiting" && connect());
  try {
    identity = await identities.load();
  } catch {
    notify("This browser does not keep keys for this page. You can join without one.", "error");
  }
  state.knownName = identity?.name ?? "";
  const stayed = memory.recall();
  if (identity && stayed.stays) wanted = { name: identity.name, identity };
  connect();
}

function connect() {
  clearTimeout(retry);
  if (wanted) enter().catch((error) => again(error.message));
  else look();
}

function again(trouble) {
  const pause = backoff.next();
  enterPhase("waiting", { trouble, retryAt: Date.now() + pause });
  clearTimeout(retry);
  retry = setTimeout(connect, pause);
}

// -- watching ----------------------------------------------------------------------------------------

function look() {
  if (state.phase !== "waiting") enterPhase("connecting");
  const mine = (watch = new Watch(address("/watch"), {
    onMessage(message) {
      if (message.type === "HALL") {
        backoff.succeeded();
        enterPhase("watching");
      }
      publish(message);
    },
    async onEnd(isRefused) {
      if (watch !== mine) return;
      watch = undefined;
      forgetPresence();
      if (isRefused && (await isHallThere())) enterPhase("closed");
      else again("The hall is not reachable.");
    },
  }));
}

async function isHallThere() {
  try {
    return (await fetch("/health", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

function stopLooking() {
  const mine = watch;
  watch = undefined;
  mine?.close();
}

// -- joining -----------------------------------------------------------------------------------------

/** Join under a name. Makes a key if this browser has none. Raises an error that the form shows. */
export async function join(name) {
  if (!identity && identities.canHaveKey()) {
    const made = await identities.create(name);
    identity = made.identity;
    state.newKey = made.file;
  } else if (identity && identity.name !== name) {
    await identities.rename(identity, name);
  }
  await joinAs({ name, identity });
}

/** Join with the key of a file. */
export async function joinWithFile(text, name) {
  identity = await identities.fromFile(text, name);
  await joinAs({ name: identity.name, identity });
}

async function joinAs(person) {
  if (former && former !== person.identity) forgetRooms();
  former = undefined;
  wanted = person;
  clearTimeout(retry);
  const before = state.phase;
  try {
    await enter();
  } catch (error) {
    wanted = undefined;
    if (before === "closed") enterPhase("closed");
    else if (!watch) look();
    else enterPhase("watching");
    throw error;
  }
  memory.keepStaying(true);
  state.wantsEntry = true; // the form is gone: the person goes on in the entry
  changed();
}

async function enter() {
  enterPhase("joining");
  const mine = new Line(address("/"), {
    onMessage: publish,
    onEnd(reason) {
      if (line !== mine) return;
      line = undefined;
      isReady = false;
      forgetPresence();
      if (wanted) again(reason || "The connection to the hall was lost.");
    },
  });
  try {
    const welcome = await mine.greet({ ...wanted, ask: askPerson });
    line = mine;
    backoff.succeeded();
    stopLooking();
    arrive(welcome);
  } catch (error) {
    mine.close();
    if (error instanceof Refusal && FINAL.has(error.code)) leaveFor(error.message);
    throw error;
  }
}

function arrive(welcome) {
  state.me = {
    id: welcome.agent_id,
    name: welcome.name,
    isVerified: welcome.verified === true,
    isKeyed: Boolean(wanted.identity),
    isLurking: welcome.lurk === true,
    features: new Set(welcome.features ?? []),
    maxContent: welcome.max_content ?? 4096,
  };
  state.hall = { ...state.hall, name: welcome.server, motd: welcome.motd ?? "" };
  enterPhase("joined");
  resume(line).catch((error) => notify(error.message, "error"));
}

/** Enter the channels of the last visit, or all that are open. What the person says waits until then. */
async function resume(mine) {
  const { list } = await send({ type: "LIST_CHANNELS" });
  const open = list.filter((channel) => !channel.verifiedOnly || state.me?.isVerified).map(({ name }) => name);
  const rooms = (memory.recall().rooms ?? open).slice(0, MOST_JOINED);
  const outcomes = await Promise.allSettled(rooms.map((channel) => send({ type: "JOIN", channel })));
  if (line !== mine) return;
  outcomes.forEach(({ status }, place) => {
    if (status === "rejected") roomNamed(rooms[place]).isJoined = false;
  });
  isReady = true;
  rememberRooms();
  changed();
  if (state.me.features.has("agents")) await send({ type: "LIST_AGENTS" });
}

function askPerson(question, hint) {
  return new Promise((resolve) => {
    state.captcha = { question, hint, answer(text) {
      state.captcha = undefined;
      changed();
      resolve(text);
    } };
    changed();
  });
}

/** What one person was told is not for the next one at this browser. Watchers get anew what is public. */
function forgetRooms() {
  for (const all of [state.rooms, state.channels, state.transfers]) all.clear();
}

/** The person goes, and watches again. */
export function leave() {
  leaveFor("");
  forgetRooms();
  state.newKey = null;
  memory.keepStaying(false);
  look();
}

function leaveFor(trouble) {
  const mine = line;
  line = wanted = undefined;
  isReady = false;
  state.me = null;
  for (const room of state.rooms.values()) room.isJoined = false;
  mine?.close();
  clearTimeout(retry);
  forgetPresence();
  state.trouble = trouble;
  changed();
}

/** The hall closed this connection on purpose: another tab, or the operator. The person decides what comes next. */
export function endStay(trouble) {
  former = wanted?.identity;
  leaveFor(trouble);
  enterPhase("displaced", { trouble });
}

export async function forgetKey() {
  await identities.forget();
  identity = undefined;
  state.knownName = "";
  memory.clear();
  leave();
}

/** Who stays now: the same object through lost connections, and another one after each joining. */
export const person = () => wanted;

/** The key that signs, or undefined. */
export const signer = () => wanted?.identity;

// -- what the person does -----------------------------------------------------------------------------

/** Send a message and return its answer. Raises a Refusal, or an error when there is no connection. */
export function send(message, patience) {
  if (!line) return Promise.reject(new Error("You are not connected to the hall."));
  return line.request(message, patience);
}

/** Send what needs no answer. It is lost if there is no connection. */
export function tell(message) {
  try {
    line?.send(message);
  } catch {
    // the connection has just ended
  }
}

/** True while there is a connection, and the person is back in all channels. */
export const isOnline = () => line !== undefined && isReady;

export async function enterChannel(channel) {
  await send({ type: "JOIN", channel });
  rememberRooms();
}

export async function leaveChannel(channel) {
  await send({ type: "LEAVE", channel });
  rememberRooms();
}

export async function createChannel(channel, { inviteOnly, verifiedOnly }) {
  await send({ type: "CREATE_CHANNEL", channel, invite_only: inviteOnly, verified_only: verifiedOnly });
  rememberRooms();
}

function rememberRooms() {
  memory.keepRooms([...state.rooms.values()].filter((room) => room.isJoined && !room.isDirect).map(({ name }) => name));
}
