import type { HalfDuplexPrepare } from "../protocol/half-duplex-messages.ts";
import { NEW_CONVERSATION } from "./conversation-state.ts";
import type { SpokenSettings, SpokenState } from "./spoken-conversation.ts";

export interface HalfDuplexSettings extends SpokenSettings {
  prepare: HalfDuplexPrepare;
}

/** Whose turn it is. */
export type Floor =
  | "listening"
  /** The user speaks. */
  | "hearing"
  /** The answer is being made, and nothing of it is heard yet. */
  | "thinking"
  | "speaking"
  /** Spoken; the microphone waits until the room is silent. */
  | "settling";

export interface Turn {
  readonly id: number;
  /** How long the user spoke, ms. */
  readonly speechMs: number;
  readonly reply: string;
  readonly done: boolean;
  /** The reply was stopped. */
  readonly cut: boolean;
  /** From the end of the user's speech, as the server found it, to the first sound, ms. */
  readonly firstSoundMs: number | null;
}

export interface HalfDuplexState extends SpokenState {
  readonly floor: Floor;
  readonly turns: readonly Turn[];
  /** So long may the server hear nothing, silence included, before it ends the session. */
  readonly timeoutS: number | null;
  /** When it will, unless something is sent, `performance.now()`; null while it answers. */
  readonly quietDeadline: number | null;
}

export const NEW_TURN: Turn = {
  id: 0,
  speechMs: 0,
  reply: "",
  done: false,
  cut: false,
  firstSoundMs: null,
};

export const NEW_HALF_DUPLEX: HalfDuplexState = {
  ...NEW_CONVERSATION,
  muted: false,
  sourceEnded: false,
  floor: "listening",
  turns: [],
  timeoutS: null,
  quietDeadline: null,
};
