// The one key of this browser for this hall, in IndexedDB. CryptoKeys are stored as objects that no script can read.

const DATABASE = "moothall";
const STORE = "identity";
const ONLY = "mine";

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

export const loadRecord = () => run("readonly", (store) => store.get(ONLY));
export const saveRecord = (record) => run("readwrite", (store) => store.put(record, ONLY));
export const forgetRecord = () => run("readwrite", (store) => store.delete(ONLY));
