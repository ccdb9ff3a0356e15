import type { AudioEngine } from "../audio/audio-engine.ts";
import type { Result } from "../protocol/server-messages.ts";
import type { ModelSpeech } from "./model-speech.ts";

/** Metrics of a unit, measured in the page. Milliseconds, null if unknown. */
export interface UnitMetrics {
  readonly at: number;
  readonly listen: boolean;
  /** From sending the chunk to receiving its result. */
  readonly latencyMs: number | null;
  /** How much later results arrive than at the start, because of the network or the server. */
  readonly driftMs: number;
  readonly costMs: number;
  readonly llmMs: number;
  readonly ttsMs: number;
  /** In the worker, from reading the chunk to publishing the result. */
  readonly wallClockMs: number;
  readonly kvLength: number;
  readonly tokens: number;
  readonly visionTokens: number;
}

interface Sent {
  endMs: number; // of all audio sent so far
  at: number;
}

const MAX_UNANSWERED = 60;

/** Matches each result to its chunk by session time and measures the latency. Pure. */
export class UnitLatencyTracker {
  #sent: Sent[] = [];
  #sentMs = 0;
  #offsetMs: number | null = 0; // session time of the server minus ours
  #firstTransitMs: number | undefined;

  sent(chunkMs: number, at: number): void {
    this.#sentMs += chunkMs;
    this.#sent = [...this.#sent, { endMs: this.#sentMs, at }].slice(-MAX_UNANSWERED);
  }

  /** Call it after a lost connection, when chunks may be missing. The next result realigns. */
  interrupted(): void {
    this.#offsetMs = null;
  }

  /** `at`: `performance.now()`. `unixMs`: the same moment as Unix time. */
  received(result: Result, at: number, unixMs: number): UnitMetrics {
    return {
      at,
      listen: result.is_listen,
      latencyMs: this.#latency(result, at),
      driftMs: this.#drift(unixMs - result.server_send_ts * 1000),
      costMs: result.cost_all_ms,
      llmMs: result.cost_llm_ms,
      ttsMs: result.cost_tts_ms,
      wallClockMs: result.wall_clock_ms,
      kvLength: result.kv_cache_length,
      tokens: result.n_tokens,
      visionTokens: result.vision_tokens,
    };
  }

  #latency({ current_time, wall_clock_ms }: Result, at: number): number | null {
    if (this.#offsetMs === null) return this.#realign(current_time, at - wall_clock_ms);
    const ours = current_time - this.#offsetMs;
    const chunk = this.#sent.find(({ endMs }) => Math.abs(endMs - ours) < 1);
    if (!chunk) return this.#realign(current_time, at - wall_clock_ms);
    this.#sent = this.#sent.filter(({ endMs }) => endMs > ours);
    return at - chunk.at;
  }

  /** The worker read the chunk at `readAt` or earlier. Assumes the newest chunk sent by then. */
  #realign(serverMs: number, readAt: number): null {
    const chunk = this.#sent.findLast((sent) => sent.at <= readAt);
    if (chunk) this.#offsetMs = serverMs - chunk.endMs;
    return null;
  }

  /** The clocks differ, so only the change of the difference counts. */
  #drift(transitMs: number): number {
    this.#firstTransitMs ??= transitMs;
    return transitMs - this.#firstTransitMs;
  }
}

/** Milliseconds. Null if there is no value. */
export interface DuplexMetrics {
  /** The last unit. */
  readonly unit: UnitMetrics | null;
  readonly units: number;
  readonly chunksSent: number;
  /**
   * From the end of the user's speech to the model's first audio: last answer, median and longest of
   * all.
   */
  readonly firstAudioMs: number | null;
  readonly firstAudioMedianMs: number | null;
  readonly firstAudioLongestMs: number | null;
  /** See `ModelSpeech`. */
  readonly interruptions: readonly (number | null)[];
  /** Scheduled but not yet played. */
  readonly aheadMs: number;
  /** Playback delay of the next turn. */
  readonly delayMs: number;
  readonly gaps: number;
  readonly gapMs: number;
  /** Delay of the current turn that was added by gaps. */
  readonly playbackDriftMs: number;
  /** Clock drift of the microphone. */
  readonly captureDriftMs: number;
  readonly playedMs: number;
}

export const NO_METRICS: DuplexMetrics = {
  unit: null,
  units: 0,
  chunksSent: 0,
  firstAudioMs: null,
  firstAudioMedianMs: null,
  firstAudioLongestMs: null,
  interruptions: [],
  aheadMs: 0,
  delayMs: 0,
  gaps: 0,
  gapMs: 0,
  playbackDriftMs: 0,
  captureDriftMs: 0,
  playedMs: 0,
};

/** Collects all metrics except those of the unit itself. */
export function collectMetrics(
  audio: AudioEngine,
  { responses, interruptions }: ModelSpeech,
  chunksSent: number,
): Omit<DuplexMetrics, "unit" | "units"> {
  const { aheadMs, delayMs, gaps, gapMs, driftMs, playedMs } = audio.player.stats;
  return {
    chunksSent,
    firstAudioMs: responses.last,
    firstAudioMedianMs: responses.median,
    firstAudioLongestMs: responses.longest,
    interruptions: [...interruptions],
    aheadMs,
    delayMs,
    gaps,
    gapMs,
    playbackDriftMs: driftMs,
    captureDriftMs: audio.capture.driftMs,
    playedMs,
  };
}

/** Returns the fields of `client_diagnostic`. */
export function diagnosticFields(metrics: DuplexMetrics): Record<string, number | null> {
  return {
    latency_ms: metrics.unit?.latencyMs ?? null,
    drift_ms: metrics.unit?.driftMs ?? null,
    units: metrics.units,
    chunks_sent: metrics.chunksSent,
    first_sound_ms: metrics.firstAudioMs,
    first_sound_median_ms: metrics.firstAudioMedianMs,
    ahead_ms: metrics.aheadMs,
    delay_ms: metrics.delayMs,
    gaps: metrics.gaps,
    gap_ms: metrics.gapMs,
    playback_drift_ms: metrics.playbackDriftMs,
    capture_drift_ms: metrics.captureDriftMs,
    played_ms: metrics.playedMs,
  };
}
