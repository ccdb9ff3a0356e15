import type { OrbMode } from "../../components/voice-orb.ts";
import type { HalfDuplexSessionState } from "../../session/half-duplex-state.ts";
import type { halfDuplexStrings } from "./strings.ts";

/** What the stage shows, in one word. */
export type StageState = keyof ReturnType<typeof halfDuplexStrings>["state"];

const MODES: Record<StageState, OrbMode> = {
  idle: "idle",
  opening: "connecting",
  connecting: "connecting",
  queued: "paused",
  preparing: "connecting",
  listening: "listening",
  muted: "paused",
  hearing: "hearing",
  thinking: "thinking",
  speaking: "speaking",
  writing: "thinking",
  settling: "idle",
  stopping: "paused",
  ended: "ended",
};

export function stageOf(state: HalfDuplexSessionState | null): StageState {
  const begun = state?.recordingId !== null; // what never began has not ended either
  if (state === null || (state.phase === "ended" && !begun)) return "idle";
  if (state.phase !== "active") return state.phase === "paused" ? "listening" : state.phase;
  if (state.turnState === "listening" && state.muted) return "muted";
  const writes = state.turnState === "thinking" && state.turns.at(-1)?.reply;
  return writes ? "writing" : state.turnState;
}

export function orbModeOf(stage: StageState): OrbMode {
  return MODES[stage];
}
