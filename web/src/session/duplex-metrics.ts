import type { AudioEngine } from "../audio/audio-engine.ts";
import type { ResponseTimes } from "./model-speech.ts";
import type { UnitMetrics } from "./unit-metrics.ts";

/** Milliseconds. Null if there is no value. */
export interface DuplexMetrics {
  /** The last unit. */
  readonly unit: UnitMetrics | null;
  readonly units: number;
  readonly chunksSent: number;
  /**
   * From the end of the user's speech to the model's first audio: last answer, and median of all.
   */
  readonly firstAudioMs: number | null;
  readonly firstAudioMedianMs: number | null;
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
  responses: ResponseTimes,
  chunksSent: number,
): Omit<DuplexMetrics, "unit" | "units"> {
  const { aheadMs, delayMs, gaps, gapMs, driftMs, playedMs } = audio.player.stats;
  return {
    chunksSent,
    firstAudioMs: responses.last,
    firstAudioMedianMs: responses.median,
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
