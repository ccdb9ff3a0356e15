import type { SessionKind } from "../../api/admin.ts";

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

const NAMES = ["workers", "queue", "sessions", "edges"] as const;
const WAITS_KEPT = 40;
const EVENTS_KEPT = 300;

interface Change {
  readonly set: Rows<unknown>;
  readonly gone: readonly string[];
}

/** Returns the system after a message. Unknown messages change nothing. */
export function apply(before: System, name: string, data: unknown): System {
  const update = data as Partial<System> & { readonly [table: string]: unknown };
  if (name === "snapshot") {
    const fresh = { ...EMPTY_SYSTEM, ...(update as Partial<System>) };
    return { ...fresh, waits: waits(before, fresh.sessions) };
  }
  if (name === "events") {
    const events = [...before.events, ...(update.events ?? [])].slice(-EVENTS_KEPT);
    return { ...before, events };
  }
  if (name !== "change") return before;
  const tables: Record<string, unknown> = {};
  for (const table of NAMES) {
    const change = update[table] as Change | undefined;
    if (change) tables[table] = changed(before[table], change);
  }
  const { at, redis } = update as System;
  const after = { ...before, ...(tables as Partial<Tables>), at, redis };
  return { ...after, waits: waits(before, after.sessions) };
}

function changed(rows: Rows<unknown>, { set, gone }: Change): Rows<unknown> {
  const left = new Set(gone);
  const remaining = Object.entries(rows).filter(([id]) => !left.has(id));
  return { ...Object.fromEntries(remaining), ...set };
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
