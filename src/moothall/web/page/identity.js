// Who the person is: an Ed25519 key that the browser keeps, and signs with, but never shows again.
//
// A key is made extractable once, so that a copy can be offered as a key file; what is kept is not extractable.

import { base64, fromPem, pem, sha256 } from "./bytes.js";
import { storeIn } from "./database.js";
import { isSigned, rawKey } from "./ed25519.js";
import { makeKey, sealed, signed } from "./signers.js";

// The one key of this browser for this hall, in IndexedDB. CryptoKeys are stored as objects that no script can read.
const run = storeIn("moothall", "identity");
const ONLY = "mine";
const loadRecord = () => run("readonly", (store) => store.get(ONLY));
const saveRecord = (record) => run("readwrite", (store) => store.put(record, ONLY));

/** Browsers have WebCrypto on https and on this machine only. Without it, people join without a key. */
export const canHaveKey = () => Boolean(globalThis.crypto?.subtle && globalThis.indexedDB);

class Identity {
  #sealed;

  constructor({ name, pem: publicKey, ...key }) {
    this.name = name;
    this.pem = publicKey;
    this.#sealed = key;
  }

  /** The signature of a text, in base64. */
  async sign(text) {
    return base64(await signed(this.#sealed, new TextEncoder().encode(text)));
  }
}

/** The identity of this browser, or undefined. */
export async function load() {
  if (!canHaveKey()) return undefined;
  const record = await loadRecord();
  return record && new Identity(record);
}

/** A new key. Returns { identity, file }: the file is the key in the format of `moothall identity`. */
export async function create(name) {
  const { privateDer, publicDer } = await makeKey();
  const publicPem = pem("PUBLIC KEY", publicDer);
  const identity = await keep(name, publicPem, privateDer);
  return { identity, file: await keyFile(name, publicPem, pem("PRIVATE KEY", privateDer)) };
}

/** The identity in a key file. Raises an error that says what is wrong with it. */
export async function fromFile(text, name) {
  let fields;
  try {
    fields = JSON.parse(text);
  } catch {
    throw new Error("This is not a key file: it is not JSON. Choose a file that `moothall identity new` made.");
  }
  const privateDer = fromPem("PRIVATE KEY", fields?.privateKey ?? fields?.privkey);
  const publicPem = fields.publicKey ?? fields.pubkey;
  const identity = new Identity({ name: "", pem: publicPem, ...(await sealed(privateDer)) });
  if (!(await isSigned("mine", await identity.sign("mine"), rawKey(publicPem)))) {
    throw new Error("The public key in this file does not belong to its private key.");
  }
  return keep(name || fields.name || "me", pem("PUBLIC KEY", fromPem("PUBLIC KEY", publicPem)), privateDer);
}

export async function rename(identity, name) {
  const record = await loadRecord();
  if (record && record.pem === identity.pem) await saveRecord({ ...record, name });
  identity.name = name;
}

export const forget = () => run("readwrite", (store) => store.delete(ONLY));

async function keep(name, publicPem, privateDer) {
  const record = { name, pem: publicPem, ...(await sealed(privateDer)) };
  await saveRecord(record);
  return new Identity(record);
}

async function keyFile(name, publicKey, privateKey) {
  const agentId = (await sha256(new TextEncoder().encode(publicKey))).slice(0, 16);
  return `${JSON.stringify({ publicKey, privateKey, agentId, name, created: new Date().toISOString() }, null, 2)}\n`;
}
