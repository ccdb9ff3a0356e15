import { liveStream } from "../../api/admin.ts";
import type { SessionKind } from "../../api/answers.ts";
import { ApiError } from "../../api/http.ts";
import { backoffMs } from "../../protocol/resumable-socket.ts";
import { Store } from "../../state/store.ts";

/** Rows of `GET /api/admin/live`. Times are ms of the Redis clock. */
export interface WorkerRow {
  readonly state: string;
  readonly open: boolean;
  readonly detail: string;
  readonly engine: string;
  readonly model: string;
  readonly device: string;
  /** Bytes. Null for workers that do not report it. */
  readonly memory: { readonly used: number; readonly total: number } | null;
  readonly kinds: readonly SessionKind[];
  readonly slots: number;
  readonly used: number;
  readonly counters: Readonly<Record<string, number>>;
}

export interface WaitingRow {
  readonly session: string;
  readonly kind: SessionKind;
  readonly state: string;
  readonly position: number;
  readonly queued_at: number;
  /** Null while no worker can take it, for `reason`. */
  readonly eta_s: number | null;
  readonly reason: string | null;
}

export interface SessionRow {
  readonly kind: SessionKind;
  readonly state: string;
  readonly worker: string;
  readonly assigned_at: number;
  /** Number of workers that served it. */
  readonly attempt: number;
  /** Number of reconnects of its client. */
  readonly resumes: number;
  /** Number of its newest answer, and the latency. */
  readonly latency: { readonly count: number; readonly ms: number } | null;
}

export interface EventRow {
  readonly id: string;
  readonly at: number;
  readonly session: string;
  readonly kind: SessionKind;
  readonly state: string;
  readonly attempt: number;
  readonly edge: string;
  readonly worker: string;
  readonly recording: string;
  readonly reason: string | null;
  readonly ask: string | null;
}

export type Rows<T> = Readonly<Record<string, T>>;

interface Tables {
  readonly workers: Rows<WorkerRow>;
  readonly queue: Rows<WaitingRow>;
  readonly sessions: Rows<SessionRow>;
  readonly edges: Rows<{ readonly sessions: number }>;
}

/** State of the whole system. */
export interface System extends Tables {
  /** Time of the last update by the server. */
  readonly at: number;
  /** False if Redis does not answer. The data is then from `at`. */
  readonly redis: boolean;
  /** Oldest first. */
  readonly events: readonly EventRow[];
  /** Latencies of the newest answers of each session, newest last. */
  readonly waits: Rows<readonly number[]>;
}

export const EMPTY_SYSTEM: System = {
  at: 0,
  redis: true,
  workers: {},
  queue: {},
  sessions: {},
  edges: {},
  events: [],
  waits: {},
};

const WAITS_KEPT = 40;
const EVENTS_KEPT = 300;

/** Returns the system after a message. Unknown messages change nothing. */
export function apply(before: System, name: string, data: unknown): System {
  const update = data as Partial<System>;
  if (name === "snapshot") {
    const after = { ...before, ...update };
    return { ...after, waits: waits(before, after.sessions) };
  }
  if (name === "events") {
    const events = [...before.events, ...(update.events ?? [])].slice(-EVENTS_KEPT);
    return { ...before, events };
  }
  return before;
}

/** Adds new latencies and removes ended sessions. */
function waits(before: System, sessions: Rows<SessionRow>): Rows<readonly number[]> {
  const pairs = Object.entries(sessions).map(([id, { latency }]) => {
    const known = before.waits[id] ?? [];
    const old = before.sessions[id]?.latency;
    if (latency === null || (old?.count === latency.count && old.ms === latency.ms)) {
      return [id, known] as const;
    }
    return [id, [...known, latency.ms].slice(-WAITS_KEPT)] as const;
  });
  return Object.fromEntries(pairs);
}

/** The server sends at least one event every ten seconds. */
const SILENT_MS = 25_000;

export interface LiveFeedState {
  /** `refused`: no token, a wrong token, or admin routes are disabled. `problem` has the reason. */
  readonly connection: "connecting" | "open" | "lost" | "refused";
  readonly problem: ApiError | null;
  readonly system: System;
  /** Local clock minus the Redis clock, ms. */
  readonly skew: number;
}

/** Receives live updates of the system and reconnects until it is stopped. */
export class LiveFeed {
  readonly state = new Store<LiveFeedState>({
    connection: "connecting",
    problem: null,
    system: EMPTY_SYSTEM,
    skew: 0,
  });
  #abort: AbortController | null = null;

  start(): void {
    this.stop();
    this.#abort = new AbortController();
    this.#patch({ connection: "connecting", problem: null });
    void this.#run(this.#abort.signal);
  }

  stop(): void {
    this.#abort?.abort();
    this.#abort = null;
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt++) {
      const received = await this.#listen(signal).catch((error: unknown) => this.#failed(error));
      if (signal.aborted || this.state.value.connection === "refused") return;
      if (received) attempt = 0;
      this.#patch({ connection: "lost" });
      await pause(backoffMs(attempt + 1), signal);
    }
  }

  /** Reads until the connection ends. Returns true if an event was received. */
  async #listen(signal: AbortSignal): Promise<boolean> {
    const connection = new AbortController();
    const end = () => connection.abort();
    signal.addEventListener("abort", end, { once: true, signal: connection.signal });
    let timer = 0;
    let received = false;
    try {
      const response = await liveStream(connection.signal);
      if (response.body === null) return false;
      timer = window.setTimeout(end, SILENT_MS);
      for await (const { name, data } of streamEvents(response.body)) {
        clearTimeout(timer);
        timer = window.setTimeout(end, SILENT_MS);
        received = true;
        this.#apply(name, JSON.parse(data));
      }
    } catch (error) {
      if (!received) throw error;
    } finally {
      clearTimeout(timer);
      end();
    }
    return received;
  }

  #apply(name: string, data: unknown): void {
    const system = apply(this.state.value.system, name, data);
    const updated = system.redis && system.at !== this.state.value.system.at;
    const skew = updated ? Date.now() - system.at : this.state.value.skew;
    this.#patch({ connection: "open", problem: null, system, skew });
  }

  #failed(error: unknown): false {
    const refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
    if (refused) this.#patch({ connection: "refused", problem: error });
    return false;
  }

  #patch(change: Partial<LiveFeedState>): void {
    this.state.set({ ...this.state.value, ...change });
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** One event of a `text/event-stream` body. */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/** Yields events until the body ends. Joins events that arrive in several pieces. */
export async function* streamEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<StreamEvent, void> {
  const text = new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>;
  const reader = body.pipeThrough(text).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) yield read(block);
    }
  } finally {
    await reader.cancel().catch(() => undefined); // the stream may already have failed
  }
}

function read(block: string): StreamEvent {
  const fields = block.split("\n").map((line) => line.split(/: ?(.*)/s, 2));
  const value = (name: string) => fields.find(([field]) => field === name)?.[1] ?? "";
  return { name: value("event"), data: value("data") };
}
