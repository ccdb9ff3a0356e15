import { STEREO_FORMAT, wavFile } from "../audio/stereo-recorder.ts";
import { inStore } from "./database.ts";
import { randomId } from "./random-id.ts";

const KEPT_MS = 24 * 3600 * 1000;
const FLUSH_MS = 1000;
const LOCK = "antiphon.recording.";

/** A recording of this browser that the user has not saved. */
export interface KeptRecording {
  readonly id: string;
  /** `audio/wav`: its parts are stereo samples at 24 kHz. */
  readonly type: string;
  readonly startedAt: number;
  /** The id of its session. Recordings of older pages have none. */
  readonly conversation?: string;
}

type RecordedPart = Blob | Int16Array<ArrayBuffer>;

const idOf = new WeakMap<Blob, string>();

/**
 * Writes a recording into the browser's database while it is made, so that it survives the page. A
 * browser without a database keeps nothing.
 */
export class RecordingKeeper {
  readonly #row: KeptRecording;
  #waiting: RecordedPart[] = [];
  #flushed = 0;
  #flushing: ReturnType<typeof setTimeout> | undefined;
  #release: () => void = () => undefined;
  readonly #released = new Promise<void>((resolve) => {
    this.#release = resolve;
  });

  constructor(type: string, conversation: string) {
    this.#row = { id: randomId(), type, startedAt: Date.now(), conversation };
    this.#hold();
  }

  /** Other tabs must not offer what this page still has. */
  #hold(): void {
    navigator.locks
      ?.request(LOCK + this.#row.id, () => this.#released)
      .catch((error: unknown) => {
        // A debugger or a dialog paused the page when the lock was granted. A DOMException means
        // that the browser grants none.
        if (!(error instanceof DOMException)) this.#hold();
      });
  }

  push(part: RecordedPart): void {
    this.#waiting.push(part);
    this.#flushing ??= setTimeout(() => void this.#flush(), FLUSH_MS);
  }

  /** Stores the rest. `whole` is the recording: saving it deletes what is kept. */
  async finish(whole: Blob): Promise<void> {
    idOf.set(whole, this.#row.id);
    await this.#flush();
  }

  /** The page no longer has the recording, so it is offered from the database. */
  release(): void {
    this.#release();
  }

  async #flush(): Promise<void> {
    clearTimeout(this.#flushing);
    this.#flushing = undefined;
    const parts = this.#waiting;
    this.#waiting = [];
    if (parts.length === 0) return;
    try {
      this.#flushed += 1;
      const key = [this.#row.id, this.#flushed];
      if (this.#flushed === 1) {
        await inStore("recordings", "readwrite", (store) => store.put(this.#row));
      }
      await inStore("parts", "readwrite", (store) => store.put(new Blob(parts), key));
    } catch {
      // Without space or a database, the page itself still has the recording.
    }
  }
}

/** All recordings that this browser keeps, the newest first. Deletes what is older than a day. */
export async function keptRecordings(): Promise<KeptRecording[]> {
  const all = await inStore<KeptRecording[]>("recordings", "readonly", (store) => store.getAll());
  const old = all.filter(({ startedAt }) => Date.now() - startedAt > KEPT_MS);
  await Promise.all(old.map(({ id }) => deleteKept(id)));
  return all.filter((one) => !old.includes(one)).sort((a, b) => b.startedAt - a.startedAt);
}

/** Like `keptRecordings`, without those that another page still has. */
export async function abandonedRecordings(): Promise<KeptRecording[]> {
  const { held = [] } = (await navigator.locks?.query()) ?? {};
  const open = new Set(held.map(({ name }) => name));
  return (await keptRecordings()).filter(({ id }) => !open.has(LOCK + id));
}

/** The recording as a file. Its bytes stay in the database until they are read. */
export async function loadKept({ id, type }: KeptRecording): Promise<Blob> {
  const parts = await inStore<Blob[]>("parts", "readonly", (store) => store.getAll(partsOf(id)));
  const whole = type === "audio/wav" ? wavFile(parts, STEREO_FORMAT) : new Blob(parts, { type });
  idOf.set(whole, id);
  return whole;
}

export async function deleteKept(id: string): Promise<void> {
  await inStore("parts", "readwrite", (store) => store.delete(partsOf(id)));
  await inStore("recordings", "readwrite", (store) => store.delete(id));
}

function partsOf(id: string): IDBKeyRange {
  return IDBKeyRange.bound([id, 0], [id, Number.POSITIVE_INFINITY]);
}

/** The user has saved a recording, so the browser need not keep it. */
export function forgetSaved(whole: Blob): void {
  const id = idOf.get(whole);
  if (id !== undefined) deleteKept(id).catch(() => undefined);
}
