import type { DuplexMetrics } from "../session/duplex-metrics.ts";
import type { UnitMetrics } from "../session/unit-metrics.ts";

/** What charts show of a call: columns of equal length, a row per unit; null where there is nothing. */
export interface UnitSeries {
  /** Seconds since the first unit. */
  readonly time: number[];
  readonly latency: (number | null)[];
  /** In the unit in which an answer was first heard. */
  readonly firstAudio: (number | null)[];
  readonly drift: number[];
  /** Silence within speech so far, ms. */
  readonly gaps: number[];
  readonly context: number[];
  readonly cost: number[];
  readonly words: number[];
}

const LONGEST = 600; // units

/** Gathers units for charts; the oldest are forgotten. */
export class UnitHistory {
  readonly columns: UnitSeries = {
    time: [],
    latency: [],
    firstAudio: [],
    drift: [],
    gaps: [],
    context: [],
    cost: [],
    words: [],
  };
  #startedAt: number | null = null;
  #lastFirstAudio: number | null = null;

  /** `metrics` as of this unit. */
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
    columns.words.push(unit.llmMs);
    if (columns.time.length > LONGEST) for (const column of Object.values(columns)) column.shift();
  }

  /** The measure stays until the next answer; only its change is news. */
  #newFirstAudio(ms: number | null): number | null {
    const isNew = ms !== null && ms !== this.#lastFirstAudio;
    this.#lastFirstAudio = ms;
    return isNew ? ms : null;
  }
}
