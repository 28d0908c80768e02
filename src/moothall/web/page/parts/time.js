// Moments and durations, as people write them.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const clockTime = (ms) => clock.format(ms);
export const dayName = (ms) => (isSameDay(ms, Date.now()) ? "Today" : day.format(ms));
export const wholeTime = (ms) => whole.format(ms);

const MINUTE = 60000;
const DAY = 86400000;

/** The day of a moment here, as a number. */
const dayNumber = (ms) => Math.floor((ms - new Date(ms).getTimezoneOffset() * MINUTE) / DAY);

export const isSameDay = (one, other) => Math.abs(one - other) < DAY && dayNumber(one) === dayNumber(other);

/** "3 s", "5 min", "2 h" or "4 d". */
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}
