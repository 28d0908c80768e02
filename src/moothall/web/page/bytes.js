// Bytes as text: hex, base64 and PEM.

export const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

const BLOCK = 0x8000; // bytes for each call: arguments of a function are limited

export function base64(buffer) {
  const bytes = new Uint8Array(buffer);
  let text = "";
  for (let start = 0; start < bytes.length; start += BLOCK) {
    text += String.fromCharCode(...bytes.subarray(start, start + BLOCK));
  }
  return btoa(text);
}

/** Raises an error for what is not base64. */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

export const pem = (label, der) => `-----BEGIN ${label}-----\n${base64(der)}\n-----END ${label}-----\n`;

/** The bytes of a PEM text with this label. Raises an error when it has another one. */
export function fromPem(label, text) {
  const found = new RegExp(`-----BEGIN ${label}-----([A-Za-z0-9+/=\\s]+)-----END ${label}-----`).exec(String(text));
  if (!found) throw new Error(`This is not a PEM text of a ${label.toLowerCase()}.`);
  return fromBase64(found[1].replace(/\s/g, ""));
}

export const sha256 = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));
