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
  /** The answer is generated and not yet audible. */
  | "thinking"
  | "speaking"
  /** The answer has ended. The microphone opens when the room is quiet. */
  | "settling";

export interface HalfDuplexTurnState {
  readonly id: number;
  /** Length of the user's speech, ms. */
  readonly speechMs: number;
  /** The user's words. Empty until the answer is complete, and without a transcript. */
  readonly heard: string;
  readonly reply: string;
  readonly done: boolean;
  /** The answer was stopped. */
  readonly cut: boolean;
  /** From the end of the user's speech, detected by the server, to the first audio, ms. */
  readonly firstAudioMs: number | null;
}

export interface HalfDuplexSessionState extends VoiceSessionState {
  readonly turnState: TurnState;
  readonly turns: readonly HalfDuplexTurnState[];
  /** Time without input after which the server ends the session. */
  readonly timeoutS: number | null;
  /** When the session ends if nothing is sent, `performance.now()`. Null during an answer. */
  readonly quietDeadline: number | null;
}

export const NEW_TURN: HalfDuplexTurnState = {
  id: 0,
  speechMs: 0,
  heard: "",
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
