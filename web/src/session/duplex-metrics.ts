import type { AudioEngine } from "../audio/audio-engine.ts";
import type { ResponseTimes } from "./response-times.ts";
import type { UnitMetrics } from "./unit-metrics.ts";

/** Milliseconds, null where there is nothing yet. */
export interface DuplexMetrics {
  /** The last unit. */
  readonly unit: UnitMetrics | null;
  readonly units: number;
  readonly chunksSent: number;
  /** From the user's last sound to the model's first one, of the last reply and of all (median). */
  readonly firstAudioMs: number | null;
  readonly firstSoundMedianMs: number | null;
  /** Scheduled and not yet heard. */
  readonly aheadMs: number;
  /** What the next turn will wait before it sounds. */
  readonly delayMs: number;
  readonly gaps: number;
  readonly gapMs: number;
  /** How much later the running turn sounds than it would without gaps. */
  readonly playbackDriftMs: number;
  /** The microphone's clock against the page's. */
  readonly captureDriftMs: number;
  readonly playedMs: number;
}

export const NO_METRICS: DuplexMetrics = {
  unit: null,
  units: 0,
  chunksSent: 0,
  firstAudioMs: null,
  firstSoundMedianMs: null,
  aheadMs: 0,
  delayMs: 0,
  gaps: 0,
  gapMs: 0,
  playbackDriftMs: 0,
  captureDriftMs: 0,
  playedMs: 0,
};

/** All but what a unit says of itself. */
export function collectMetrics(
  audio: AudioEngine,
  responses: ResponseTimes,
  chunksSent: number,
): Omit<DuplexMetrics, "unit" | "units"> {
  const { aheadMs, delayMs, gaps, gapMs, driftMs, playedMs } = audio.player.stats;
  return {
    chunksSent,
    firstAudioMs: responses.last,
    firstSoundMedianMs: responses.median,
    aheadMs,
    delayMs,
    gaps,
    gapMs,
    playbackDriftMs: driftMs,
    captureDriftMs: audio.capture.driftMs,
    playedMs,
  };
}

/** For `client_diagnostic`, in the wire's words. */
export function diagnosticFields(metrics: DuplexMetrics): Record<string, number | null> {
  return {
    latency_ms: metrics.unit?.latencyMs ?? null,
    drift_ms: metrics.unit?.driftMs ?? null,
    units: metrics.units,
    chunks_sent: metrics.chunksSent,
    first_sound_ms: metrics.firstAudioMs,
    first_sound_median_ms: metrics.firstSoundMedianMs,
    ahead_ms: metrics.aheadMs,
    delay_ms: metrics.delayMs,
    gaps: metrics.gaps,
    gap_ms: metrics.gapMs,
    playback_drift_ms: metrics.playbackDriftMs,
    capture_drift_ms: metrics.captureDriftMs,
    played_ms: metrics.playedMs,
  };
}
