// Canonical JSON: one text for one value (RFC 8785), as halls write it before they sign a record. Pure.

const MOST_LEVELS = 128;
const MOST_BYTES = 16 * 1024 * 1024;

/** True for a text with half a character in it, which no UTF-8 text can hold. */
export const hasHalf = (text) => /\p{Cs}/u.test(text);

/** The canonical text of a value that came out of a JSON parser. Raises an error that says why there is none. */
export function canonicalJson(value) {
  const text = written(value, 1);
  if (new TextEncoder().encode(text).length > MOST_BYTES) throw new Error(`it has more than ${MOST_BYTES} bytes`);
  return text;
}

function written(value, level) {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return String(value); // a number that no double holds is written as Infinity
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (level > MOST_LEVELS) throw new Error(`it is nested more than ${MOST_LEVELS} levels deep`);
  if (Array.isArray(value)) return `[${value.map((item) => written(item, level + 1)).join(",")}]`;
  // Plain sorting compares UTF-16 code units, as the RFC wants it.
  return `{${Object.keys(value).sort().map((name) => `${quoted(name)}:${written(value[name], level + 1)}`).join(",")}}`;
}

function quoted(text) {
  if (hasHalf(text)) throw new Error("a text holds a lone surrogate");
  return JSON.stringify(text);
}
