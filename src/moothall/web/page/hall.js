// What messages of the hall do to the state of the page. Both connections, that of watchers and that of people, end here.

import { listen } from "./feed.js";
import { Room } from "./room.js";
import { changed, state } from "./store.js";
import { isMentioned } from "./text/mentions.js";

const SERVER = "@server";

const MOST_SPARE = 300; // talks with one agent each, which strangers open too, and channels that are gone
const MOST_HELD = 24e6; // characters of all rooms together
const MOST_AGENTS = 5000; // that are remembered

const isSpare = ({ name, isOpen, isJoined }) => !isOpen && !isJoined && !state.channels.has(name);

export function roomNamed(name) {
  if (!state.rooms.has(name)) {
    if (!state.channels.has(name)) forgetOne(state.rooms, MOST_SPARE, isSpare);
    state.rooms.set(name, new Room(name));
  }
  return state.rooms.get(name);
}

/** Make room in a map that has `most` entries which are not needed, or more: the oldest of these goes. */
function forgetOne(map, most, isUnneeded) {
  if (map.size < most) return;
  const unneeded = [...map].filter(([, entry]) => isUnneeded(entry));
  if (unneeded.length >= most) map.delete(unneeded[0][0]);
}

/** Keep what was said bounded: the longest conversation loses its beginning. */
function makeWay() {
  const rooms = [...state.rooms.values()];
  if (rooms.reduce((sum, { size }) => sum + size, 0) > MOST_HELD) rooms.reduce((one, other) => (other.size > one.size ? other : one)).dropOldest();
}

/** Take in what is known of an agent. Fields that are undefined say nothing. */
export function meet(id, facts) {
  const known = state.agents.get(id) ?? { id, name: id, isHere: false, presence: "online", revision: 0 };
  for (const [field, value] of Object.entries(facts)) if (value !== undefined) known[field] = value;
  known.revision++;
  if (!state.agents.has(id)) forgetOne(state.agents, MOST_AGENTS, (agent) => !agent.isHere);
  state.agents.set(id, known);
  return known;
}

const factsOf = ({ name, verified, kind, via, presence, status_text, budget }) => ({
  name, verified, via, presence, budget, isHuman: kind === undefined ? undefined : kind === "human", statusText: status_text,
});

export const nameOf = (id) => (id === state.me?.id ? state.me.name : (state.agents.get(id)?.name ?? id));

/** A MSG as the page keeps it. */
export function messageOf(msg) {
  return {
    id: msg.msg_id,
    key: msg.msg_id ?? `${msg.ts}|${msg.from}|${msg.content}`, // lines of @server have no id
    ts: msg.ts,
    from: msg.from,
    name: msg.from_name,
    content: String(msg.content ?? ""),
    isVerified: msg.verified === true,
    isHuman: msg.kind === "human",
    isService: msg.from === SERVER,
    isOwn: msg.from === state.me?.id,
    isReplay: msg.replay === true,
    replyTo: msg.in_reply_to,
    via: msg.via,
    wantsReceipt: msg.receipt,
    revision: 0,
  };
}

/** The room of a MSG: its channel, or the agent at the other end. */
export const roomFor = ({ from, to }) => roomNamed(to.startsWith("#") ? to : from === state.me?.id ? to : from);

let isTransfer = () => false; // transfers are a convention on top of direct messages: files/transfers.js

/** Direct messages for which this returns true are not shown as chat. */
export function setAside(check) {
  isTransfer = check;
}

function takeMessage(msg) {
  if (!msg.to.startsWith("#") && isTransfer(msg)) return;
  const room = roomFor(msg);
  const message = room.add(messageOf(msg));
  if (!message) return;
  makeWay();
  if (!message.isService) meet(msg.from, { ...factsOf({ ...msg, name: msg.from_name }), ...(!message.isReplay && { isHere: true }) });
  if (!message.isReplay) {
    room.typing.delete(msg.from);
    room.touchAll(room.floor.speak(msg.from, msg.in_reply_to));
  }
  if (!message.isReplay || message.ts > room.knownUntil) count(room, message); // or said while the connection was lost
  changed();
}

function count(room, message) {
  if (message.isOwn || room.isOpen) return;
  room.unread++;
  room.unreadFrom ??= message.key;
  const isForMe = state.me && !message.isService && (room.isDirect || isMentioned(message.content, state.me));
  message.isMention = Boolean(isForMe);
  if (isForMe) room.mentions++;
}

function enter(room, id) {
  room.members.add(id);
  room.revision++;
}

function depart(room, id) {
  room.members.delete(id);
  room.typing.delete(id);
  room.touchAll(room.floor.depart(id));
  room.revision++;
}

const handlers = {
  HALL: ({ server, motd }) => (state.hall = { ...state.hall, name: server, motd: motd ?? "" }), // watchers get it first

  MSG: takeMessage,

  CHANNELS({ list, truncated }) {
    state.hasMoreChannels = truncated === true;
    state.channels = new Map(list.map((channel) => [channel.name, channel]));
    for (const { name } of list) roomNamed(name);
  },

  AGENTS({ channel, list }) {
    if (channel === undefined) for (const agent of state.agents.values()) agent.isHere = false;
    for (const entry of list) meet(entry.id, { ...factsOf(entry), isHere: true });
    if (channel !== undefined) roomNamed(channel).members = new Set(list.map(({ id }) => id));
  },

  JOINED({ channel, agents }) {
    const room = roomNamed(channel);
    room.isJoined = state.me !== null; // watchers get it for each public channel
    room.members = new Set();
    for (const entry of agents) {
      const id = typeof entry === "string" ? entry : entry.id;
      if (typeof entry !== "string") meet(id, { ...factsOf(entry), isHere: true });
      room.members.add(id);
    }
    if (!state.channels.has(channel)) state.channels.set(channel, { name: channel, agents: agents.length, isUnlisted: true });
    room.revision++;
  },

  LEFT({ channel }) {
    const room = roomNamed(channel);
    room.isJoined = false;
    room.revision++;
    if (!state.me) state.channels.delete(channel); // watchers get it when the channel is gone
  },

  AGENT_JOINED({ channel, agent, ...entry }) {
    meet(agent, { ...factsOf(entry), isHere: true });
    enter(roomNamed(channel), agent);
  },

  AGENT_LEFT({ channel, agent, name }) {
    if (name !== undefined) return depart(roomNamed(channel), agent);
    for (const room of state.rooms.values()) if (room.members.has(agent)) depart(room, agent); // it left the hall
    if (state.agents.has(agent)) meet(agent, { isHere: false });
  },

  PRESENCE_CHANGED: ({ agent_id, ...entry }) => meet(agent_id, { ...factsOf(entry), isHere: true }),

  NICK_CHANGED({ agent_id, new_nick }) {
    meet(agent_id, { name: new_nick });
    if (state.me?.id === agent_id) state.me = { ...state.me, name: new_nick };
  },

  TYPING: ({ channel, from, from_name }) => roomNamed(channel).types(from, from_name, Date.now()),

  RESPONDING_TO: ({ channel, msg_id, from, started_at }) => claimed(channel, msg_id, from, started_at, false),
  FLOOR_CLAIMED: ({ channel, msg_id, holder, started_at }) => claimed(channel, msg_id, holder, started_at, true),

  FLOOR_RELEASED({ channel, msg_id, from }) {
    const room = roomNamed(channel);
    room.floor.release(msg_id, from);
    room.touch(room.find(msg_id));
  },

  MOTD_UPDATE: ({ motd }) => (state.hall = { ...state.hall, motd: motd ?? "" }),
};

function claimed(channel, messageId, id, startedAt, isGranted) {
  const room = roomNamed(channel);
  room.floor.claim(messageId, { id, name: nameOf(id), startedAt, isGranted });
  room.touch(room.find(messageId));
}

/** What was heard of others ends with the connection. Messages stay, and people stay in their channels. */
export function forgetPresence() {
  for (const room of state.rooms.values()) {
    room.touchAll(room.floor.clear());
    room.typing.clear();
    room.knownUntil = room.messages.at(-1)?.ts ?? room.knownUntil;
    room.revision++;
  }
  changed();
}

for (const [type, handler] of Object.entries(handlers)) {
  listen(type, (message) => {
    handler(message);
    changed();
  });
}
