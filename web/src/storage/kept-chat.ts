import { plainText } from "../media/parts.ts";
import type { ChatEntry } from "../session/chat-exchange.ts";
import type { ChatLog, ChatLogState } from "../session/chat-log.ts";
import { Store } from "../state/store.ts";
import { tabValues } from "./browser-values.ts";
import {
  deleteConversation,
  type StoredConversation,
  storedConversations,
} from "./conversations.ts";
import { inStore } from "./database.ts";

const KEY = "antiphon.chat";
const DRAFT_KEY = "antiphon.chat.draft";
const PARTIAL_KEY = "antiphon.chat.partial";
const DAY_MS = 24 * 3600 * 1000;

interface KeptChat {
  readonly id: string;
  /** When it was written. */
  readonly at: number;
  readonly state: ChatLogState;
}

/** The row of this tab. */
interface TabChat {
  id: string;
  /** `KeptChat.at` as this tab knows it. */
  writtenAt: number | null;
}

/** The text of the last answer when the user left the page. */
interface PartialAnswer {
  readonly chat: string;
  readonly id: number;
  readonly text: string;
}

/**
 * Stores the chat of this tab when a message is added and when an answer is complete. It is
 * restored after a reload, or opened from the list of conversations (`?chat=`).
 */
export class ChatKeeper {
  readonly #log: ChatLog;
  #chat: TabChat;
  #stored: ChatLogState;
  #writing: Promise<void> = Promise.resolve();
  #unwritten = 0;
  #hasDatabase = false;
  /** Whether the browser refused the last write, for example because its storage is full. */
  readonly hasFailed = new Store(false);

  constructor(log: ChatLog) {
    this.#log = log;
    this.#stored = log.state.value;
    const opened = new URLSearchParams(location.search).get("chat");
    if (opened !== null) history.replaceState(null, "", location.pathname);
    this.#chat = tabChat(opened ?? tabValues.get(KEY) ?? freshId());
  }

  /** Whether the chat survives. False in some private windows, and without space. */
  get keeps(): boolean {
    return this.#hasDatabase && !this.hasFailed.value;
  }

  /** Whether the browser has all messages, except for the end of an answer that is generated. */
  get isComplete(): boolean {
    return this.#log.state.value.entries.length === 0 || (this.keeps && this.#unwritten === 0);
  }

  /** Call it once. Deletes old chats. Rejects if the browser has no database. */
  async restore(): Promise<void> {
    const { id } = this.#chat;
    const kept = await inStore<KeptChat | undefined>("chats", "readonly", (chats) => chats.get(id));
    this.#hasDatabase = true;
    if (kept && this.#log.state.value.entries.length === 0) {
      this.#chat.writtenAt = kept.at;
      this.#log.restore({ ...kept.state, entries: kept.state.entries.map(withPartial(id)) });
      this.#stored = this.#log.state.value;
    } else if (kept) {
      this.#chat = tabChat(freshId()); // the user was faster
    }
    this.#log.state.subscribe(() => this.#store());
    addEventListener("pagehide", () => {
      this.#keepPartial();
      this.#store(true);
    });
    this.#store();
    await this.#deleteOld();
  }

  /** Begins a new chat. The list of conversations keeps the other. */
  startNew(): void {
    this.#store(true);
    this.#chat = tabChat(freshId());
    this.#log.clear();
  }

  /** The database does not complete a write while the page is left. */
  #keepPartial(): void {
    const last = this.#log.state.value.entries.at(-1);
    if (last?.role !== "assistant") return;
    const partial: PartialAnswer = { chat: this.#chat.id, id: last.id, text: last.text };
    tabValues.set(PARTIAL_KEY, JSON.stringify(partial));
  }

  #store(leaving = false): void {
    const state = this.#log.state.value;
    const isNew = state.entries.at(-1)?.id !== this.#stored.entries.at(-1)?.id;
    const isStored = state === this.#stored && !(leaving && this.hasFailed.value);
    if (isStored || (this.#log.busy && !isNew && !leaving)) return;
    this.#stored = state;
    const chat = this.#chat;
    this.#unwritten += 1;
    this.#writing = this.#writing
      .then(() => this.#write(chat, state))
      .then(
        () => false,
        () => true, // the page still shows the chat
      )
      .then((hasFailed) => {
        this.#unwritten -= 1;
        this.hasFailed.set(hasFailed);
      });
  }

  async #write(chat: TabChat, state: ChatLogState): Promise<void> {
    if (state.entries.length === 0) {
      await deleteConversation({ id: chat.id, kept: [] });
      return;
    }
    const at = Date.now();
    const row = { id: chat.id, at, state: { ...state, entries: state.entries.map(plain) } };
    if (await hasWritten(row, chat.writtenAt)) {
      chat.writtenAt = at;
      await inStore("conversations", "readwrite", (rows) => rows.put(listed(chat.id, at, state)));
      return;
    }
    // Another tab has continued this chat. What this tab has becomes a chat of its own.
    chat.id = chat === this.#chat ? tabChat(freshId()).id : freshId();
    chat.writtenAt = null;
    await this.#write(chat, state);
  }

  /** Deletes chats that the list of conversations does not have, such as those of older pages. */
  async #deleteOld(): Promise<void> {
    const listed = new Set((await storedConversations()).map(({ id }) => id));
    const ids = await inStore("chats", "readonly", (chats) => chats.getAllKeys());
    const isOld = (id: string) => Date.now() - Number.parseInt(id, 10) > DAY_MS;
    for (const id of ids as string[]) {
      if (listed.has(id) || id === this.#chat.id || !isOld(id)) continue;
      await inStore("chats", "readwrite", (chats) => chats.delete(id));
    }
  }
}

/** Adds the text to an answer that was stored when it began. */
function withPartial(chat: string): (one: ChatEntry) => ChatEntry {
  const partial = JSON.parse(tabValues.get(PARTIAL_KEY) ?? "null") as PartialAnswer | null;
  return (one) => {
    const isPartial = partial?.chat === chat && partial.id === one.id;
    const isEmpty = one.role === "assistant" && one.text === "";
    return isPartial && isEmpty ? { ...one, text: partial.text } : one;
  };
}

/** The text that this tab had not sent before its reload. */
export function keptDraft(): string {
  return tabValues.get(DRAFT_KEY) ?? "";
}

export function keepDraft(text: string): void {
  tabValues.set(DRAFT_KEY, text);
}

/** An id that begins with its time. */
function freshId(): string {
  return `${Date.now()}-${Math.random()}`;
}

/** The chat of this tab from now on. */
function tabChat(id: string): TabChat {
  tabValues.set(KEY, id);
  return { id, writtenAt: null };
}

/** Writes the row, unless another tab has written it since this one did, at `writtenAt`. */
async function hasWritten(row: KeptChat, writtenAt: number | null): Promise<boolean> {
  const isMine = (found: KeptChat | undefined) => found === undefined || found.at === writtenAt;
  const before = await inStore<KeptChat | undefined>("chats", "readwrite", (chats) => {
    const found = chats.get(row.id);
    found.addEventListener("success", () => {
      if (isMine(found.result)) chats.put(row);
    });
    return found;
  });
  return isMine(before);
}

/** The chat in the list of conversations: its texts only. */
function listed(id: string, at: number, { entries }: ChatLogState): StoredConversation {
  const lines = entries.map((one) =>
    one.role === "user"
      ? { role: "user" as const, text: plainText(one.parts).trim(), atMs: 0 }
      : { role: "model" as const, text: one.text.trim(), atMs: 0 },
  );
  return {
    id,
    kind: "chat",
    startedAt: at,
    durationMs: 0,
    recordingId: null,
    lines: lines.filter(({ text }) => text !== ""),
    title: "",
  };
}

/** Without the browser's error, which may not be storable. */
function plain(entry: ChatLogState["entries"][number]): ChatLogState["entries"][number] {
  if (entry.role === "user" || !entry.exchange.end) return entry;
  const end = { ...entry.exchange.end, cause: undefined };
  return { ...entry, exchange: { ...entry.exchange, end } };
}
