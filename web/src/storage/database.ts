import { Store } from "../state/store.ts";

const STORES = 2; // version of the list below

type StoreName = "recordings" | "parts" | "chats" | "conversations";

const OPTIONS: Record<StoreName, IDBObjectStoreParameters> = {
  recordings: { keyPath: "id" },
  parts: {}, // by [id of the recording, number]
  chats: { keyPath: "id" },
  conversations: { keyPath: "id" },
};

/** Whether the browser keeps anything, as far as is known. False in some private windows. */
export const hasDatabase = new Store(true);

let opening: Promise<IDBDatabase> | undefined;

/** The IndexedDB of all pages. Rejects if the browser has none, as in some private windows. */
function database(): Promise<IDBDatabase> {
  opening ??= openDatabase();
  opening.then(
    () => hasDatabase.set(true),
    () => {
      opening = undefined;
      hasDatabase.set(false);
    },
  );
  return opening;
}

function openDatabase(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open("antiphon", STORES);
    request.onupgradeneeded = () => {
      const { result } = request;
      for (const [name, options] of Object.entries(OPTIONS)) {
        if (!result.objectStoreNames.contains(name)) result.createObjectStore(name, options);
      }
    };
    request.onsuccess = () => {
      const { result } = request;
      // The browser has closed it, for example because the user deleted the data of the site.
      result.onclose = () => {
        opening = undefined;
      };
      // A page of a newer version waits until this one has closed the database.
      result.onversionchange = () => {
        result.close();
        opening = undefined;
      };
      resolve(result);
    };
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("another tab uses an older version of this page"));
  });
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
