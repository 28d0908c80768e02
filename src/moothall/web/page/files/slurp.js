// SLURP v4, the text format in which files travel (agentchat wire 15.3). Pure.
//
// The format has no escapes. A file that it would change, such as one without a final newline, travels as base64.

import { base64, fromBase64, sha256 } from "../bytes.js";

const MAGIC = "# --- SLURP v4 ---";
const LINE = 76; // characters of base64
const LOOKED_AT = 8192; // bytes in which a NUL makes a file binary
const MOST_FILES = 1000; // of an archive

const closer = (path) => `=== END ${path} ===`;

/** The archive of [{ name, bytes }]. */
export async function pack(files, created = new Date()) {
  const entries = await Promise.all(files.map(async ({ name, bytes }) => ({ name, bytes, text: asText(name, bytes), digest: await sha256(bytes) })));
  const width = Math.max(4, ...entries.map(({ name }) => name.length));
  const total = entries.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const manifest = entries.map(({ name, bytes, text, digest }) =>
    `#   ${name.padEnd(width)}  ${humanSize(bytes.length).padStart(10)}  sha256:${digest.slice(0, 16)}${text === undefined ? "  [binary]" : ""}`);
  const head = [MAGIC, "#", "# name: transfer", `# files: ${entries.length}`, `# total: ${humanSize(total)}`, `# created: ${created.toISOString()}`, "#", "# MANIFEST:", ...manifest, "#", ""];
  const parts = [head.join("\n")];
  for (const { name, bytes, text } of entries) {
    parts.push(text === undefined ? `\n=== ${name} [binary] ===\n${wrapped(bytes)}` : `\n=== ${name} ===\n${text}`, `${closer(name)}\n`);
  }
  return parts.join("");
}

/** The text of a file that arrives as it is, or undefined. */
function asText(name, bytes) {
  if (name.startsWith("END ") || name.endsWith(" [binary]") || bytes.subarray(0, LOOKED_AT).includes(0)) return undefined;
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
  const keepsItsEnd = text.endsWith("\n") && !text.endsWith("\n\n") && text.length > 1;
  return keepsItsEnd && !`\n${text}`.includes(`\n${closer(name)}\n`) ? text : undefined;
}

function wrapped(bytes) {
  const text = base64(bytes);
  const lines = [];
  for (let start = 0; start < text.length; start += LINE) lines.push(text.slice(start, start + LINE), "\n");
  return lines.join("");
}

/** As the reference's sender writes sizes. */
export function humanSize(size) {
  if (size < 1024) return `${size} B`;
  return size < 1024 * 1024 ? `${(size / 1024).toFixed(1)} KB` : `${(size / 1024 / 1024).toFixed(1)} MB`;
}

/** The files of an archive: [{ path, bytes }] or [{ path, fault }]. `path` is the sender's word. */
export function unpack(archive) {
  const found = [];
  let place = 0;
  while (place < archive.length) {
    const end = lineEnd(archive, place);
    const opener = openerOf(archive, place, end);
    place = end + 1;
    if (!opener) continue;
    if (found.length === MOST_FILES) {
      found.push({ path: opener.path, fault: `only ${MOST_FILES} files are taken` });
      break;
    }
    const closing = findCloser(archive, place, closer(opener.path));
    if (closing < 0) {
      found.push({ path: opener.path, fault: "the archive ends in the middle of it" });
      break;
    }
    found.push(entryOf(opener, archive.slice(place, closing)));
    place = lineEnd(archive, closing) + 1;
  }
  return found;
}

function lineEnd(text, start) {
  const end = text.indexOf("\n", start);
  return end < 0 ? text.length : end;
}

function openerOf(text, start, end) {
  if (!text.startsWith("=== ", start) || end - start > 65536) return undefined;
  const line = text.slice(start, end);
  const binary = /^=== (.+) \[binary\] ===$/s.exec(line);
  if (binary) return { path: binary[1], isBinary: true };
  const plain = /^=== (?!END )(.+) ===$/s.exec(line);
  return plain ? { path: plain[1], isBinary: false } : undefined;
}

function findCloser(text, start, marker) {
  for (let place = text.indexOf(marker, start); place >= 0; place = text.indexOf(marker, place + 1)) {
    const after = text[place + marker.length];
    if ((place === start || text[place - 1] === "\n") && (after === undefined || after === "\n")) return place;
  }
  return -1;
}

function entryOf({ path, isBinary }, content) {
  if (!isBinary) return { path, bytes: new TextEncoder().encode(content.endsWith("\n") ? content : `${content}\n`) };
  try {
    return { path, bytes: fromBase64(content.replace(/[\r\n]/g, "")) };
  } catch {
    return { path, fault: "its content is not base64" };
  }
}

// -- chunks ----------------------------------------------------------------------------------------------

const ROOM = 262144 - 512; // bytes of a frame for the data of one chunk (seed 001, transport)

/** Cut an archive so that each FILE_CHUNK, JSON inside JSON, stays below the frames that a hall takes. */
export function cut(archive, room = ROOM) {
  const chunks = [];
  let start = 0;
  let size = 0;
  for (let place = 0; place < archive.length; place++) {
    const cost = costOf(archive.charCodeAt(place));
    if (size + cost > room) {
      const middle = isLow(archive.charCodeAt(place)) ? place - 1 : place; // a pair stays together
      chunks.push(archive.slice(start, middle));
      size = middle < place ? costOf(archive.charCodeAt(middle)) : 0;
      start = middle;
    }
    size += cost;
  }
  chunks.push(archive.slice(start));
  return chunks;
}

const isLow = (unit) => unit >= 0xdc00 && unit < 0xe000;

function costOf(unit) {
  if (unit >= 0x80) return unit < 0x800 ? 2 : 3;
  if (unit >= 0x20) return unit === 0x22 || unit === 0x5c ? 4 : 1;
  return (unit >= 8 && unit <= 10) || unit === 12 || unit === 13 ? 3 : 7;
}
