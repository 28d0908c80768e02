// The one key of this browser for this hall, in IndexedDB. CryptoKeys are stored as objects that no script can read.

import { storeIn } from "./database.js";

const run = storeIn("moothall", "identity");
const ONLY = "mine";

export const loadRecord = () => run("readonly", (store) => store.get(ONLY));
export const saveRecord = (record) => run("readwrite", (store) => store.put(record, ONLY));
export const forgetRecord = () => run("readwrite", (store) => store.delete(ONLY));
