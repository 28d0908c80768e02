// The samples of the last hour, and what the charts show of them. Pure.

const HOUR = 3600000; // milliseconds

/** The samples that are known, with those that came since; nothing is older than an hour. */
export function joined(known, more) {
  const last = known.at(-1)?.at ?? 0;
  const all = [...known, ...more.filter(({ at }) => at > last)];
  const latest = all.at(-1)?.at ?? 0;
  return all.filter(({ at }) => at > latest - HOUR);
}

const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
const rate = (count, { seconds }, unit) => (seconds > 0 ? (unit * count) / seconds : 0);

/** One row for each chart: its name, what it shows of a sample, and how that is written. */
export const SERIES = [
  { name: "Connections", of: ({ connections }) => connections, say: whole },
  { name: "Messages per second", of: (sample) => rate(sample.messages, sample, 1), say: short },
  { name: "Refusals per minute", of: (sample) => rate(sum(sample.refusals), sample, 60), say: short },
  { name: "Bytes in queues", of: ({ outbox_bytes }) => outbox_bytes, say: bytes },
  { name: "Slow readers", of: ({ slow_readers }) => slow_readers, say: whole },
  { name: "Loop lag", of: ({ lag }) => 1000 * lag, say: (value) => `${short(value)} ms` },
];

/** How often each code was refused, the most frequent first: [{ code, count, points }]. */
export function refusalsByCode(samples) {
  const codes = new Map();
  for (const { refusals } of samples) for (const [code, count] of Object.entries(refusals)) codes.set(code, (codes.get(code) ?? 0) + count);
  return [...codes]
    .map(([code, count]) => ({ code, count, points: samples.map(({ at, refusals }) => ({ at, value: refusals[code] ?? 0 })) }))
    .sort((one, other) => other.count - one.count || one.code.localeCompare(other.code));
}

const UNITS = ["B", "KB", "MB", "GB"];

export function bytes(count) {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log(Math.max(1, count)) / Math.log(1000)));
  return `${short(count / 1000 ** power)} ${UNITS[power]}`;
}

function whole(value) {
  return Math.round(value).toLocaleString();
}

function short(value) {
  return value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 });
}
