import type { SessionKind } from "../api/answers.ts";
import type { DuplexSessionState } from "../session/duplex-session.ts";
import type { HalfDuplexSessionState } from "../session/half-duplex-session.ts";
import { finalLines } from "../session/transcript.ts";
import type { Store } from "../state/store.ts";
import { inStore } from "./database.ts";
import { deleteKept, type KeptRecording, keptRecordings } from "./kept-recordings.ts";

const KEPT_MS = 30 * 24 * 3600 * 1000;
const WRITE_MS = 1000;
/** Start of the name of a conversation that the server did not record: `/s/device_…`. */
const DEVICE = "device_";

export interface StoredLine {
  readonly role: "user" | "model";
  readonly text: string;
  /** When its first words arrived, milliseconds of the conversation without pauses. */
  readonly atMs: number;
}

/** A conversation of this browser. */
export interface StoredConversation {
  /** The id of its session. */
  readonly id: string;
  readonly kind: SessionKind;
  /** Of a chat: when its last message was stored. */
  readonly startedAt: number;
  /** Without pauses. */
  readonly durationMs: number;
  /** Null if the server did not record it. */
  readonly recordingId: string | null;
  readonly lines: readonly StoredLine[];
  /** A name from the user. Empty without one. */
  readonly title: string;
}

/** A conversation with what this browser still has of its sound. */
export interface OwnConversation extends StoredConversation {
  readonly kept: readonly KeptRecording[];
}

type SpokenState = DuplexSessionState | HalfDuplexSessionState;

/** Writes a conversation into the browser's database while it runs. Call it before it starts. */
export function keepConversation<State extends SpokenState>(
  states: Store<State>,
  kind: SessionKind,
  isRecorded: boolean,
): void {
  const writer = new ConversationWriter(kind, isRecorded);
  const unsubscribe = states.subscribe((state) => {
    writer.follow(state);
    if (state.phase === "ended") unsubscribe();
  });
}

class ConversationWriter {
  readonly #kind: SessionKind;
  readonly #isRecorded: boolean;
  readonly #firstSeen = new Map<string, number>();
  #startedAt = 0;
  /** Time in the conversation until the last pause, and when it went on (`performance.now()`). */
  #beforeMs = 0;
  #activeSince: number | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #next: Omit<StoredConversation, "title"> | null = null;

  constructor(kind: SessionKind, isRecorded: boolean) {
    this.#kind = kind;
    this.#isRecorded = isRecorded;
  }

  follow(state: SpokenState): void {
    this.#followClock(state.phase === "active");
    if (this.#startedAt === 0) return;
    this.#next = {
      id: state.sessionId,
      kind: this.#kind,
      startedAt: this.#startedAt,
      durationMs: this.#elapsedMs,
      recordingId: this.#isRecorded ? state.recordingId : null,
      lines: this.#lines(state),
    };
    if (state.phase === "ended") this.#write();
    else this.#timer ??= setTimeout(() => this.#write(), WRITE_MS);
  }

  #followClock(isActive: boolean): void {
    if (isActive && this.#startedAt === 0) this.#startedAt = Date.now();
    if (isActive) this.#activeSince ??= performance.now();
    else {
      this.#beforeMs = this.#elapsedMs;
      this.#activeSince = null;
    }
  }

  get #elapsedMs(): number {
    return this.#beforeMs + (this.#activeSince ? performance.now() - this.#activeSince : 0);
  }

  #lines(state: SpokenState): StoredLine[] {
    return spoken(state).map(({ key, role, text }) => {
      const atMs = this.#firstSeen.get(key) ?? this.#elapsedMs;
      this.#firstSeen.set(key, atMs);
      return { role, text: text.trim(), atMs };
    });
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const row = this.#next;
    if (row === null) return;
    const titled = (before: Before) => ({ ...row, title: before?.title ?? "" });
    change(row.id, titled).catch(() => undefined);
  }
}

type Before = StoredConversation | undefined;

/** Reads and writes a row in one transaction. Another page may write it too. */
async function change(
  id: string,
  to: (before: Before) => StoredConversation | undefined,
): Promise<void> {
  await inStore<Before>("conversations", "readwrite", (rows) => {
    const found = rows.get(id);
    found.addEventListener("success", () => {
      const row = to(found.result);
      if (row) rows.put(row);
    });
    return found;
  });
}

function spoken(state: SpokenState): { key: string; role: "user" | "model"; text: string }[] {
  const lines =
    "transcript" in state
      ? finalLines(state.transcript).map(({ id, role, text }) => ({ key: `${id}`, role, text }))
      : state.turns.flatMap(({ id, userText, reply, done }) => [
          { key: `${id} user`, role: "user" as const, text: done ? userText : "" },
          { key: `${id} model`, role: "model" as const, text: reply },
        ]);
  return lines.filter(({ text }) => text.trim() !== "");
}

/**
 * The conversations of this browser, the newest first, without their sound. Deletes what is older
 * than 30 days. Rejects if the browser has no database.
 */
export async function storedConversations(): Promise<StoredConversation[]> {
  const rows = await inStore<StoredConversation[]>("conversations", "readonly", (store) =>
    store.getAll(),
  );
  const old = rows.filter(({ startedAt }) => Date.now() - startedAt > KEPT_MS);
  for (const { id } of old) await deleteRow(id);
  return rows.filter((row) => !old.includes(row)).sort((a, b) => b.startedAt - a.startedAt);
}

/** Like `storedConversations`, with their sound. */
export async function ownConversations(): Promise<OwnConversation[]> {
  const rows = await storedConversations();
  const kept = await keptRecordings();
  return rows.map((row) => ({
    ...row,
    kept: kept.filter(({ conversation }) => conversation === row.id),
  }));
}

/** Path of the page that opens a conversation of this browser: the chat or the viewer. */
export function conversationPath({ id, kind, recordingId }: StoredConversation): string {
  if (kind === "chat") return `/turnbased?chat=${encodeURIComponent(id)}`;
  return `/s/${encodeURIComponent(recordingId ?? DEVICE + id)}`;
}

/** Whether only this browser has the conversation of the viewer's page `/s/{name}`. */
export function isOnDeviceOnly(name: string): boolean {
  return name.startsWith(DEVICE);
}

/** The conversation of the viewer's page `/s/{name}`. Null if this browser has none. */
export async function ownConversation(page: string): Promise<OwnConversation | null> {
  const all = await ownConversations();
  const name = isOnDeviceOnly(page) ? page.slice(DEVICE.length) : page;
  return all.find(({ id, recordingId }) => id === name || recordingId === name) ?? null;
}

/** Does nothing if this browser has no such conversation. */
export async function renameConversation(name: string, title: string): Promise<void> {
  const found = await ownConversation(name);
  if (found) await change(found.id, (row) => row && { ...row, title });
}

/** Deletes what this browser has. The recording of the server stays. */
export async function deleteConversation({
  id,
  kept,
}: Pick<OwnConversation, "id" | "kept">): Promise<void> {
  for (const recording of kept) await deleteKept(recording.id);
  await deleteRow(id);
}

async function deleteRow(id: string): Promise<void> {
  await inStore("conversations", "readwrite", (rows) => rows.delete(id));
  await inStore("chats", "readwrite", (chats) => chats.delete(id));
}
