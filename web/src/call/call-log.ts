import type { DuplexMetrics, UnitMetrics } from "../session/metrics.ts";
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

const MOST_EVENTS = 200;
const LONGEST_TEXT = 120; // characters

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
    this.set([event, ...this.value.slice(0, MOST_EVENTS - 1)]);
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
  if (typeof value !== "string" || value.length <= LONGEST_TEXT) return value;
  return `${value.slice(0, LONGEST_TEXT)}… [${value.length} characters]`;
}

/** Data of the charts: arrays of equal length with one value per unit. Null means no value. */
export interface UnitSeries {
  /** Seconds since the first unit. */
  readonly time: number[];
  readonly latency: (number | null)[];
  /** Set in the unit in which the first audio of an answer plays. */
  readonly firstAudio: (number | null)[];
  readonly drift: number[];
  /** Total length of playback gaps so far, ms. */
  readonly gaps: number[];
  readonly context: number[];
  readonly cost: number[];
  readonly llmCost: number[];
}

const MOST_UNITS = 3000; // ten minutes in units of 200 ms

/** Collects the metrics of units for charts. Drops the oldest. */
export class UnitHistory {
  readonly columns: UnitSeries = {
    time: [],
    latency: [],
    firstAudio: [],
    drift: [],
    gaps: [],
    context: [],
    cost: [],
    llmCost: [],
  };
  #startedAt: number | null = null;
  #lastFirstAudio: number | null = null;

  /** `metrics`: values at the time of this unit. */
  push(unit: UnitMetrics, metrics: DuplexMetrics): void {
    const { columns } = this;
    this.#startedAt ??= unit.at;
    columns.time.push((unit.at - this.#startedAt) / 1000);
    columns.latency.push(unit.latencyMs);
    columns.firstAudio.push(this.#newFirstAudio(metrics.firstAudioMs));
    columns.drift.push(unit.driftMs);
    columns.gaps.push(metrics.gapMs);
    columns.context.push(unit.kvLength);
    columns.cost.push(unit.costMs);
    columns.llmCost.push(unit.llmMs);
    if (columns.time.length > MOST_UNITS)
      for (const column of Object.values(columns)) column.shift();
  }

  /** The value repeats until the next answer, so only a change counts. */
  #newFirstAudio(ms: number | null): number | null {
    const isNew = ms !== null && ms !== this.#lastFirstAudio;
    this.#lastFirstAudio = ms;
    return isNew ? ms : null;
  }
}
