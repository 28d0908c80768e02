// The messages of a transfer: JSON texts with `_ft` in direct MSG and FILE_CHUNK (docs/files.md).

export const MOST_BYTES = 50 * 1024 * 1024; // of all files (seed 001, file transfer)
const MOST_CHUNKS = 8192;
const MOST_FILES = 10000;
const MOST_LISTED = 200;
const TID = /^[A-Za-z0-9_-]{1,64}$/;
const DIGEST = /^[0-9A-Fa-f]{64}$/;

const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const text = (value) => (typeof value === "string" ? value : "");

const CHECKS = {
  offer: ({ files, totalSize, sha256, chunks }) =>
    Array.isArray(files) && files.every((file) => typeof file?.name === "string" && isCount(file.size)) && isCount(totalSize) &&
    DIGEST.test(sha256) && isCount(chunks) && chunks >= 1 && chunks <= MOST_CHUNKS,
  accept: () => true,
  reject: () => true,
  chunk: ({ idx, total, data }) => isCount(idx) && isCount(total) && typeof data === "string",
  complete: ({ sha256 }) => sha256 === undefined || sha256 === null || DIGEST.test(sha256),
  ack: ({ ok }) => typeof ok === "boolean",
  cancel: () => true,
};

/** { message } for a message of a transfer; {} for one that is wrong or unknown; undefined for chat. */
export function decode(content) {
  if (!content.includes('"_ft"') || !content.trimStart().startsWith("{")) return undefined;
  let message;
  try {
    message = JSON.parse(content);
  } catch {
    return undefined;
  }
  if (typeof message?._ft !== "string") return undefined;
  const isKnown = Object.hasOwn(CHECKS, message._ft) && TID.test(message.tid) && CHECKS[message._ft](message);
  return isKnown ? { message } : {};
}

/** The content of a MSG. A name with @@ in it must not be taken for a marker. */
export const encode = (message) => JSON.stringify(message).replaceAll("@@", "@\\u0040");

/** The same for an offer, with as many file names as there is room for. */
export function encodeOffer(offer, room) {
  let listed = offer.files.length;
  for (;;) {
    const content = encode({ ...offer, files: offer.files.slice(0, listed), ...(listed < offer.files.length && { more: offer.files.length - listed }) });
    if (content.length <= room || listed === 0) return content;
    listed = Math.floor(listed * 0.8);
  }
}

/** What is kept of another agent's offer. */
export function trimmed({ tid, files, totalSize, sha256, chunks, more, resume }) {
  const listed = files.slice(0, MOST_LISTED).map(({ name, size }) => ({ name: name.slice(0, 1024), size }));
  const left = (isCount(more) ? more : 0) + files.length - listed.length;
  return { tid, files: listed, totalSize, sha256: sha256.toLowerCase(), chunks, more: Math.min(MOST_FILES, left), resume: resume === true };
}

export const reasonOf = (message) => text(message.reason || message.error).slice(0, 200);

/** `0-57,60` for ascending indices. */
export function ranges(indices) {
  const parts = [];
  for (const index of indices) {
    const last = parts.at(-1);
    if (last && last[1] === index - 1) last[1] = index;
    else parts.push([index, index]);
  }
  return parts.slice(0, 400).map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(",");
}

/** The indices that a `have` lists. Parts that make no sense list none. */
export function indicesOf(have, total) {
  const found = new Set();
  for (const part of text(have).slice(0, 4096).split(",")) {
    const [, from, to = from] = /^(\d{1,8})(?:-(\d{1,8}))?$/.exec(part) ?? [];
    if (from === undefined) continue;
    for (let index = Number(from); index <= Math.min(Number(to), total - 1); index++) found.add(index);
  }
  return found;
}
