// Ed25519 signatures of others, checked by the browser, or where it knows none by a library.

import { fromBase64, fromPem } from "./bytes.js";

export const ED25519 = { name: "Ed25519" };
export const SPKI_PREFIX = Uint8Array.from([48, 42, 48, 5, 6, 3, 43, 101, 112, 3, 33, 0]);

/** The 32 bytes of a public key in PEM. Raises an error for anything else. */
export function rawKey(pemText) {
  const der = fromPem("PUBLIC KEY", pemText);
  if (der.length !== SPKI_PREFIX.length + 32 || SPKI_PREFIX.some((byte, place) => der[place] !== byte)) throw new Error("This is not an Ed25519 public key.");
  return der.slice(SPKI_PREFIX.length);
}

/** True if `signature`, in base64, is that of `signed`, a text or bytes, by the key of these 32 bytes. */
export async function isSigned(signed, signature, key) {
  const bytes = typeof signed === "string" ? new TextEncoder().encode(signed) : signed;
  let raw;
  try {
    raw = fromBase64(signature);
  } catch {
    return false;
  }
  if (raw.length !== 64) return false;
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key, ED25519, false, ["verify"]);
  } catch {
    const { verifyAsync } = await import("./vendor/ed25519.js");
    return verifyAsync(raw, bytes, key, { zip215: false }).catch(() => false);
  }
  return crypto.subtle.verify(ED25519, imported, raw, bytes);
}
