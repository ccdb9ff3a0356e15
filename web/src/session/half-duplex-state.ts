import type { HalfDuplexPrepare } from "../protocol/half-duplex-messages.ts";
import { NEW_SESSION } from "./session-state.ts";
import type { VoiceSessionOptions, VoiceSessionState } from "./voice-session.ts";

export interface HalfDuplexSessionOptions extends VoiceSessionOptions {
  prepare: HalfDuplexPrepare;
}

/** Whose turn it is. */
export type TurnState =
  | "listening"
  /** The user speaks. */
  | "hearing"
  /** The answer is being made, and nothing of it is heard yet. */
  | "thinking"
  | "speaking"
  /** Spoken; the microphone waits until the room is silent. */
  | "settling";

export interface HalfDuplexTurnState {
  readonly id: number;
  /** How long the user spoke, ms. */
  readonly speechMs: number;
  readonly reply: string;
  readonly done: boolean;
  /** The reply was stopped. */
  readonly cut: boolean;
  /** From the end of the user's speech, as the server found it, to the first sound, ms. */
  readonly firstAudioMs: number | null;
}

export interface HalfDuplexSessionState extends VoiceSessionState {
  readonly turnState: TurnState;
  readonly turns: readonly HalfDuplexTurnState[];
  /** So long may the server hear nothing, silence included, before it ends the session. */
  readonly timeoutS: number | null;
  /** When it will, unless something is sent, `performance.now()`; null while it answers. */
  readonly quietDeadline: number | null;
}

export const NEW_TURN: HalfDuplexTurnState = {
  id: 0,
  speechMs: 0,
  reply: "",
  done: false,
  cut: false,
  firstAudioMs: null,
};

export const NEW_HALF_DUPLEX: HalfDuplexSessionState = {
  ...NEW_SESSION,
  muted: false,
  sourceEnded: false,
  turnState: "listening",
  turns: [],
  timeoutS: null,
  quietDeadline: null,
};
