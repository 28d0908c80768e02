// How keys are made, kept and used: by the browser itself, or where it knows no Ed25519, by a library.
//
// Either way no script can read a key that is kept. The browser's own is not extractable. That of the library is
// encrypted with an AES key that is not extractable, and decrypted for the moment of a signature.

import { ED25519, SPKI_PREFIX } from "./ed25519.js";

const PKCS8_PREFIX = Uint8Array.from([48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32]);
const SEED_BYTES = 32;

const library = () => import("./vendor/ed25519.js");

const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

let native; // a promise: whether the browser knows Ed25519

function isNative() {
  native ??= crypto.subtle.generateKey(ED25519, false, ["sign", "verify"]).then(() => true, () => false);
  return native;
}

/** A new key: { privateDer, publicDer }. The caller keeps it, and offers a copy. */
export async function makeKey() {
  if (await isNative()) {
    const pair = await crypto.subtle.generateKey(ED25519, true, ["sign", "verify"]);
    return { privateDer: await crypto.subtle.exportKey("pkcs8", pair.privateKey), publicDer: await crypto.subtle.exportKey("spki", pair.publicKey) };
  }
  const { utils, getPublicKeyAsync } = await library();
  const seed = utils.randomPrivateKey();
  return { privateDer: joined(PKCS8_PREFIX, seed), publicDer: joined(SPKI_PREFIX, await getPublicKeyAsync(seed)) };
}

/** What is kept of a private key. Raises an error for what is not an Ed25519 key. */
export async function sealed(privateDer) {
  if (await isNative()) return { privateKey: await crypto.subtle.importKey("pkcs8", privateDer, ED25519, false, ["sign"]) };
  const bytes = new Uint8Array(privateDer);
  if (bytes.length !== PKCS8_PREFIX.length + SEED_BYTES || PKCS8_PREFIX.some((byte, place) => bytes[place] !== byte)) {
    throw new Error("This is not an Ed25519 key.");
  }
  const wrapping = await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]);
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const wrapped = await crypto.subtle.encrypt({ name: "AES-GCM", iv }, wrapping, bytes.slice(PKCS8_PREFIX.length));
  return { wrapping, iv, wrapped };
}

/** The signature of bytes, with what `sealed` returned. */
export async function signed({ privateKey, wrapping, iv, wrapped }, bytes) {
  if (privateKey) return crypto.subtle.sign(ED25519, privateKey, bytes);
  const { signAsync } = await library();
  const seed = new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv }, wrapping, wrapped));
  try {
    return await signAsync(bytes, seed);
  } finally {
    seed.fill(0);
  }
}
