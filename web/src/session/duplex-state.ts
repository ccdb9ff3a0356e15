import type { DuplexPrepare } from "../protocol/duplex-messages.ts";
import { type DuplexMetrics, NO_METRICS } from "./duplex-metrics.ts";
import { NEW_SESSION } from "./session-state.ts";
import type { TranscriptLine } from "./transcript.ts";
import type { VoiceSessionOptions, VoiceSessionState } from "./voice-session.ts";

export interface DuplexSessionOptions extends VoiceSessionOptions {
  kind: "audio" | "omni";
  prepare: DuplexPrepare;
  /** What to show: a camera's or a file's element. Omni only; `setPicture` replaces it. */
  videoElement?: HTMLVideoElement | undefined;
  /** Fall silent as soon as the user speaks, before the server says so; true unless said otherwise. */
  bargeIn?: boolean;
}

export interface Limit {
  readonly of: "duration" | "context";
  /** When it will be reached, `performance.now()`; an estimate for the context. */
  readonly deadline: number;
}

export interface DuplexSessionState extends VoiceSessionState {
  /** Heard right now, not merely received. */
  readonly modelSpeaks: boolean;
  readonly userSpeaks: boolean;
  /** When the server ends a pause, `performance.now()`. */
  readonly pauseDeadline: number | null;
  /** A limit that is near: of the session's length, or of what the model can keep in mind. */
  readonly limit: Limit | null;
  readonly transcript: readonly TranscriptLine[];
  readonly metrics: DuplexMetrics;
  /** The engine only replays a timing model. */
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
