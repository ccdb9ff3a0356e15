import type { Exchange } from "../session/session.ts";
import { Store } from "../state/store.ts";

export interface LoggedEvent {
  readonly id: number;
  /** Seconds since the start of the log. */
  readonly at: number;
  readonly sent: boolean;
  readonly type: string;
  /** JSON without audio and images. */
  readonly text: string;
}

const MOST = 200;
const LONGEST = 120;

/** The last messages of a connection, the newest first. */
export class EventLog extends Store<readonly LoggedEvent[]> {
  #count = 0;
  #startMs = performance.now();

  constructor() {
    super([]);
  }

  push({ sent, message }: Exchange): void {
    const { type, ...rest } = message as { type?: string };
    const text = JSON.stringify(rest, summarize);
    const at = (performance.now() - this.#startMs) / 1000;
    const event = { id: this.#count++, at, sent, type: type ?? "", text };
    this.set([event, ...this.value.slice(0, MOST - 1)]);
  }

  clear(): void {
    this.#startMs = performance.now();
    this.set([]);
  }
}

/** Replaces what is too long to read by its length. */
function summarize(_name: string, value: unknown): unknown {
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Blob) return `[${value.size} bytes]`;
  if (typeof value !== "string" || value.length <= LONGEST) return value;
  return `${value.slice(0, LONGEST)}… [${value.length} characters]`;
}
