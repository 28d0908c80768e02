// The time that is left, second by second. All countdowns of the page follow one timer.

import { html, useEffect, useState } from "../ui.js";
import { wholeTime } from "./time.js";

const followers = new Set();
let timer;

/** The time in milliseconds. While `isOn`, the component renders again every second. */
export function useNow(isOn = true) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isOn) return undefined;
    setNow(Date.now());
    followers.add(setNow);
    timer ??= setInterval(() => followers.forEach((follower) => follower(Date.now())), 1000);
    return () => {
      followers.delete(setNow);
      if (followers.size) return;
      clearInterval(timer);
      timer = undefined;
    };
  }, [isOn]);
  return now;
}

/** "2 d 3 h", "4 h 5 min", "6 min 7 s" or "8 s". */
export function timeLeft(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const units = [["d", Math.floor(seconds / 86400)], ["h", Math.floor(seconds / 3600) % 24], ["min", Math.floor(seconds / 60) % 60], ["s", seconds % 60]];
  const first = units.findIndex(([, count]) => count > 0);
  return first < 0 ? "0 s" : units.slice(first, first + 2).map(([unit, count]) => `${count} ${unit}`).join(" ");
}

export function Countdown({ until, label = "ends in" }) {
  const left = until - useNow();
  return html`
    <time class="countdown ${left < 60000 ? "soon" : ""}" datetime=${new Date(until).toISOString()} title=${wholeTime(until)}>
      ${left > 0 ? `${label} ${timeLeft(left)}` : "time is up"}
    </time>
  `;
}
