// The secret of a dispute, from its commitment until it was revealed. It is kept in IndexedDB: a page that is closed in
// between can still reveal it.

import { storeIn } from "./database.js";

const run = storeIn("moothall-court", "nonces");
const placeOf = (me, deal) => `${me} ${deal}`;

/** The secret that `me` committed to in a dispute about this deal, or undefined. */
export const keptNonce = (me, deal) => run("readonly", (store) => store.get(placeOf(me, deal)));
export const keepNonce = (me, deal, nonce) => run("readwrite", (store) => store.put(nonce, placeOf(me, deal)));
export const forgetNonce = (me, deal) => run("readwrite", (store) => store.delete(placeOf(me, deal)));
