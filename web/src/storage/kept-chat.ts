import type { ChatLog, ChatLogState } from "../session/chat-log.ts";
import { inStore } from "./database.ts";

const KEY = "antiphon.chat";
const KEPT_MS = 24 * 3600 * 1000;

interface KeptChat {
  readonly id: string;
  readonly at: number;
  readonly state: ChatLogState;
}

/**
 * Restores the chat of this tab after a reload, and stores it when a message is added and when an
 * answer is complete. Deletes chats of closed tabs after a day. Rejects if the browser has no
 * database.
 */
export async function keepChat(log: ChatLog): Promise<void> {
  const id = sessionStorage.getItem(KEY) ?? `${Date.now()}-${Math.random()}`;
  sessionStorage.setItem(KEY, id);
  const kept = await inStore<KeptChat | undefined>("chats", "readonly", (store) => store.get(id));
  if (kept) log.restore(kept.state);
  let stored = log.state.value;
  const store = (leaving = false): void => {
    const state = log.state.value;
    const grown = state.entries.length !== stored.entries.length;
    if (state === stored || (log.busy && !grown && !leaving)) return;
    stored = state;
    write(id, state).catch(() => undefined); // no space: the page still shows the chat
  };
  log.state.subscribe(() => store());
  addEventListener("pagehide", () => store(true));
  await deleteOld();
}

async function write(id: string, state: ChatLogState): Promise<void> {
  if (state.entries.length === 0) {
    await inStore("chats", "readwrite", (chats) => chats.delete(id));
    return;
  }
  const row: KeptChat = {
    id,
    at: Date.now(),
    state: { ...state, entries: state.entries.map(plain) },
  };
  await inStore("chats", "readwrite", (chats) => chats.put(row));
}

/** Without the browser's error, which may not be storable. */
function plain(entry: ChatLogState["entries"][number]): ChatLogState["entries"][number] {
  if (entry.role === "user" || !entry.exchange.end) return entry;
  const end = { ...entry.exchange.end, cause: undefined };
  return { ...entry, exchange: { ...entry.exchange, end } };
}

async function deleteOld(): Promise<void> {
  const all = await inStore<KeptChat[]>("chats", "readonly", (store) => store.getAll());
  const old = all.filter(({ at }) => Date.now() - at > KEPT_MS);
  for (const { id } of old) await inStore("chats", "readwrite", (store) => store.delete(id));
}
