import type { DuplexPrepare } from "../protocol/duplex-messages.ts";
import { type DuplexMetrics, NO_METRICS } from "./duplex-metrics.ts";
import { NEW_SESSION } from "./session-state.ts";
import type { TranscriptLine } from "./transcript.ts";
import type { VoiceSessionOptions, VoiceSessionState } from "./voice-session.ts";

export interface DuplexSessionOptions extends VoiceSessionOptions {
  kind: "audio" | "omni";
  prepare: DuplexPrepare;
  /** The video element of a camera or file. Video calls only. `setVideoElement` replaces it. */
  videoElement?: HTMLVideoElement | undefined;
  /**
   * Stop playback as soon as the user speaks, before the server reacts, and start no answer before
   * the user stops. Default true.
   */
  bargeIn?: boolean;
}

export interface Limit {
  readonly of: "duration" | "context";
  /** When it is reached, `performance.now()`. An estimate for the context. */
  readonly deadline: number;
}

export interface DuplexSessionState extends VoiceSessionState {
  /** Audible now, not only received. */
  readonly modelSpeaks: boolean;
  readonly userSpeaks: boolean;
  /** When the server ends a pause, `performance.now()`. */
  readonly pauseDeadline: number | null;
  /** A limit that is near: session length or context size. */
  readonly limit: Limit | null;
  readonly transcript: readonly TranscriptLine[];
  readonly metrics: DuplexMetrics;
  /** The engine is simulated and its answers have no meaning. */
  readonly simulated: boolean;
}

export const NEW_DUPLEX: DuplexSessionState = {
  ...NEW_SESSION,
  muted: false,
  modelSpeaks: false,
  userSpeaks: false,
  pauseDeadline: null,
  limit: null,
  transcript: [],
  metrics: NO_METRICS,
  sourceEnded: false,
  simulated: false,
};
