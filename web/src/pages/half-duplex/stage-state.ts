import type { OrbMode } from "../../components/voice-orb.ts";
import type { HalfDuplexState } from "../../session/half-duplex-state.ts";
import type { words } from "./words.ts";

/** What the stage shows, in one word. */
export type Stage = keyof ReturnType<typeof words>["state"];

const MODES: Record<Stage, OrbMode> = {
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

export function stageOf(state: HalfDuplexState | null): Stage {
  const begun = state?.recordingId !== null; // what never began has not ended either
  if (state === null || (state.phase === "ended" && !begun)) return "idle";
  if (state.phase !== "active") return state.phase === "paused" ? "listening" : state.phase;
  if (state.floor === "listening" && state.muted) return "muted";
  const writes = state.floor === "thinking" && state.turns.at(-1)?.reply;
  return writes ? "writing" : state.floor;
}

export function modeOf(stage: Stage): OrbMode {
  return MODES[stage];
}
