import type { VoiceChange } from "../audio/voice-activity.ts";

/** What a change of the user's voice does to the model's speech. */
export type BargeInAction =
  /** Silence, but nothing is lost: the voice may be a cough. */
  | "pause"
  /** The voice was no speech: the model's speech continues where it paused. */
  | "resume"
  /** The user interrupts: the rest of the turn is dropped, and the model listens. */
  | "interrupt"
  | null;

/**
 * Decides about barge-in. `speaks`: the model is heard, will be when its next unit arrives, or is
 * paused. `paused`: by a voice that is not certain to be speech. Pure.
 */
export function bargeInAction(
  change: VoiceChange,
  { speaks, paused }: { speaks: boolean; paused: boolean },
): BargeInAction {
  switch (change) {
    case "begins":
      return speaks ? "pause" : null;
    case "certain":
      return paused ? "interrupt" : null;
    case "ends":
      return paused ? "resume" : null;
  }
}
