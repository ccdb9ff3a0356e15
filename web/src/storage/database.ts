const STORES = 1; // version of the list below

export type StoreName = "recordings" | "parts" | "chats";

let opening: Promise<IDBDatabase> | undefined;

/** The IndexedDB of all pages. Rejects if the browser has none, as in some private windows. */
function database(): Promise<IDBDatabase> {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("antiphon", STORES);
    request.onupgradeneeded = () => {
      const { result } = request;
      result.createObjectStore("recordings", { keyPath: "id" });
      result.createObjectStore("parts"); // by [id of the recording, number]
      result.createObjectStore("chats", { keyPath: "id" });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opening;
}

/** Runs one request. Resolves to its result when the transaction is complete. */
export async function inStore<T>(
  name: StoreName,
  mode: IDBTransactionMode,
  run: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T> {
  const transaction = (await database()).transaction(name, mode);
  const request = run(transaction.objectStore(name));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}
