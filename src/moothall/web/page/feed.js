// What the hall sends, whichever connection brings it. Modules listen to types of messages; none asks another.

const listeners = new Map();

/** Call `handler(message)` for each message of this type. Returns what ends it. */
export function listen(type, handler) {
  if (!listeners.has(type)) listeners.set(type, new Set());
  listeners.get(type).add(handler);
  return () => listeners.get(type).delete(handler);
}

export function publish(message) {
  for (const handler of listeners.get(message.type) ?? []) handler(message);
}
