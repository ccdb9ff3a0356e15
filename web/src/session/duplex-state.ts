import type { DuplexPrepare } from "../protocol/duplex-messages.ts";
import { NEW_CONVERSATION } from "./conversation-state.ts";
import { type DuplexMetrics, NO_METRICS } from "./duplex-metrics.ts";
import type { SpokenSettings, SpokenState } from "./spoken-conversation.ts";
import type { Line } from "./transcript.ts";

export interface DuplexSettings extends SpokenSettings {
  kind: "audio" | "omni";
  prepare: DuplexPrepare;
  /** What to show: a camera's or a file's element. Omni only; `setPicture` replaces it. */
  picture?: HTMLVideoElement | undefined;
  /** Fall silent as soon as the user speaks, before the server says so; true unless said otherwise. */
  bargeIn?: boolean;
}

export interface Limit {
  readonly of: "duration" | "context";
  /** When it will be reached, `performance.now()`; an estimate for the context. */
  readonly deadline: number;
}

export interface DuplexState extends SpokenState {
  /** Heard right now, not merely received. */
  readonly modelSpeaks: boolean;
  readonly userSpeaks: boolean;
  /** When the server ends a pause, `performance.now()`. */
  readonly pauseDeadline: number | null;
  /** A limit that is near: of the session's length, or of what the model can keep in mind. */
  readonly limit: Limit | null;
  readonly transcript: readonly Line[];
  readonly metrics: DuplexMetrics;
  /** The engine only replays a timing model. */
  readonly simulated: boolean;
}

export const NEW_DUPLEX: DuplexState = {
  ...NEW_CONVERSATION,
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
