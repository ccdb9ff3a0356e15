import type { DuplexMetrics, UnitMetrics } from "../session/metrics.ts";

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

const LONGEST = 600; // units

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
    if (columns.time.length > LONGEST) for (const column of Object.values(columns)) column.shift();
  }

  /** The value repeats until the next answer, so only a change counts. */
  #newFirstAudio(ms: number | null): number | null {
    const isNew = ms !== null && ms !== this.#lastFirstAudio;
    this.#lastFirstAudio = ms;
    return isNew ? ms : null;
  }
}
