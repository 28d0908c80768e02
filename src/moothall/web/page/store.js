// The one state of the page, and how components follow it.
//
// Messages change the state in place, and then call `changed()`. Components are asked at most once for each animation
// frame whether what they show is different. So 200 messages a second cost as many renders as there are frames.

import { useEffect, useReducer, useRef } from "./vendor/hooks.js";

export const state = {
  // "connecting", "watching", "joining", "joined", "waiting" (for the next attempt), "closed" (to the public), "displaced"
  phase: "connecting",
  retryAt: 0, // when the next attempt is made, in milliseconds; while "waiting"
  trouble: "", // why the connection ended, in words
  me: null, // { id, name, isVerified, isKeyed, isLurking, features, maxContent } once joined
  hall: { name: "", motd: "" },
  rooms: new Map(), // Room by "#channel" or "@agent"
  channels: new Map(), // what the hall lists: { name, agents, verifiedOnly } by name
  hasMoreChannels: false, // than the hall lists
  agents: new Map(), // what is known of agents, by id
  transfers: new Map(), // files under way and offered, by direction and transfer id
  news: 0, // messages about deals and cases of the person, counted
  notices: [], // what the person is told: { key, text, kind }
  knownName: "", // of the key that this browser keeps
  captcha: undefined, // { question, hint, answer(text) } while the hall asks one
  jump: undefined, // { room, key } of a message to be shown
  wantsEntry: false, // the entry takes the focus when it is there, if nothing else has it
  newKey: null, // the identity file of a key that was just made, while a copy is offered
};

const followers = new Set();
let isScheduled = false;

/** Ask all components, in the next frame, whether they show something else now. */
export function changed() {
  if (isScheduled) return;
  isScheduled = true;
  if (document.visibilityState === "visible") requestAnimationFrame(flush);
  else setTimeout(flush, 250); // a hidden page has no frames
}

function flush() {
  isScheduled = false;
  for (const follower of [...followers]) follower();
}

/**
 * What `select(state)` returns, kept up to date. The component renders again when the value is another one (Object.is).
 * Objects that change in place carry a `revision`: select that.
 */
export function useStore(select) {
  const [, again] = useReducer((count) => count + 1, 0);
  const latest = useRef();
  latest.current = { select, value: select(state) };
  useEffect(() => {
    const follower = () => {
      const { select: selected, value } = latest.current;
      if (!Object.is(selected(state), value)) again();
    };
    followers.add(follower);
    follower(); // it may have changed between render and effect
    return () => followers.delete(follower);
  }, []);
  return latest.current.value;
}

let lastNotice = 0;

/** Tell the person something. `kind` is "info" or "error". */
export function notify(text, kind = "info") {
  const notice = { key: ++lastNotice, text, kind };
  state.notices = [...state.notices.slice(-3), notice];
  changed();
  setTimeout(() => dismiss(notice.key), kind === "error" ? 12000 : 6000);
}

export function dismiss(key) {
  state.notices = state.notices.filter((notice) => notice.key !== key);
  changed();
}
