// What this browser remembers of the last visit, besides the key: whether the person stayed, and in which channels.

const PLACE = "moothall";

export function recall() {
  try {
    return JSON.parse(localStorage.getItem(PLACE)) ?? {};
  } catch {
    return {}; // storage is off, or not ours
  }
}

function keep(facts) {
  try {
    localStorage.setItem(PLACE, JSON.stringify({ ...recall(), ...facts }));
  } catch {
    // Storage is full or off: the next visit begins anew.
  }
}

export const keepStaying = (stays) => keep({ stays });
export const keepRooms = (rooms) => keep({ rooms });

export function clear() {
  try {
    localStorage.removeItem(PLACE);
  } catch {
    // nothing was kept
  }
}
