// The secret of a dispute, from its commitment until it was revealed. It is kept in IndexedDB: a page that is closed in
// between can still reveal it.

const DATABASE = "moothall-court";
const STORE = "nonces";

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function run(mode, work) {
  const database = await opened();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode);
      const request = work(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

const placeOf = (me, deal) => `${me} ${deal}`;

/** The secret that `me` committed to in a dispute about this deal, or undefined. */
export const keptNonce = (me, deal) => run("readonly", (store) => store.get(placeOf(me, deal)));
export const keepNonce = (me, deal, nonce) => run("readwrite", (store) => store.put(nonce, placeOf(me, deal)));
export const forgetNonce = (me, deal) => run("readwrite", (store) => store.delete(placeOf(me, deal)));
