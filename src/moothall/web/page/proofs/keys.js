// Keys and signatures of others, read as the hall reads them (agentchat wire 3). Pure.

import { fromBase64, hex, pem, sha256 } from "../bytes.js";
import { SPKI_PREFIX, isSigned } from "../ed25519.js";

const KEY_BYTES = 32;
const MOST_PEM = 8192; // characters
const BLOCK = /-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]*)-----END PUBLIC KEY-----/;

// Points with which a signature fits many texts or keys, without their sign bit: halls refuse them.
const SMALL_ORDER = new Set([
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]);
const PRIME_END = 0xed; // the first byte of the field's prime; the others are ff, and the last 7f

const unsigned = (point) => Uint8Array.from(point, (byte, place) => (place === 31 ? byte & 0x7f : byte));
const isSmall = (point) => SMALL_ORDER.has(hex(unsigned(point)));

/** False for a point that could be written in another way too. */
function isCanonical(point) {
  const bytes = unsigned(point);
  return bytes[31] !== 0x7f || bytes[0] < PRIME_END || bytes.subarray(1, 31).some((byte) => byte !== 0xff);
}

export class PublicKey {
  /** `raw` are its 32 bytes; `id` is the SHA-256 of its PEM text, in hex: agents' ids are the beginning of that. */
  constructor(raw, id) {
    this.raw = raw;
    this.hex = hex(raw);
    this.id = id;
  }

  static async of(raw) {
    if (raw.length !== KEY_BYTES) throw new Error(`an Ed25519 public key has ${KEY_BYTES} bytes, not ${raw.length}`);
    const text = pem("PUBLIC KEY", Uint8Array.from([...SPKI_PREFIX, ...raw]));
    return new PublicKey(raw, await sha256(new TextEncoder().encode(text)));
  }

  /** Raises an error that says what is wrong with the text. */
  static async read(text) {
    if (text.length > MOST_PEM) throw new Error("the PEM text is too long");
    if (/-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(text)) throw new Error("this is a private key");
    const block = BLOCK.exec(text);
    if (!block) throw new Error("not a public key in PEM form (BEGIN PUBLIC KEY)");
    const der = fromBase64(block[1].replace(/\s/g, ""));
    if (der.length !== SPKI_PREFIX.length + KEY_BYTES || SPKI_PREFIX.some((byte, place) => der[place] !== byte)) {
      throw new Error("not an Ed25519 key: other kinds of key are not used here");
    }
    return PublicKey.of(der.slice(SPKI_PREFIX.length));
  }

  /** True if `address` is an id of this key, with 8 or 16 digits. */
  hasId(address) {
    return address === `@${this.id.slice(0, 8)}` || address === `@${this.id.slice(0, 16)}`;
  }

  equals(other) {
    return other !== undefined && this.hex === other.hex;
  }

  /** True if this key made the signature, in base64, of a text or of bytes. */
  async verifies(signed, signature) {
    const plain = signature.replace(/\s/g, "").replace(/=+$/, "").replaceAll("-", "+").replaceAll("_", "/");
    if (!/^[A-Za-z0-9+/]{86}$/.test(plain) || !isCanonical(this.raw) || isSmall(this.raw)) return false;
    return !isSmall(fromBase64(plain).subarray(0, 32)) && isSigned(signed, `${plain}==`, this.raw);
  }
}
