import { expect, it } from "vitest";
import type { VoiceChange } from "../audio/voice-activity.ts";
import { type BargeInAction, bargeInAction } from "./barge-in.ts";

/** What happens to a model that speaks, or is silent, while the user's voice changes. */
function actions(speaks: boolean, ...changes: (VoiceChange | "listens")[]): BargeInAction[] {
  const model = { speaks, paused: false };
  return changes.map((change) => {
    const action = change === "listens" ? "interrupt" : bargeInAction(change, model);
    if (action === "interrupt") model.speaks = model.paused = false;
    if (action === "pause" || action === "resume") model.paused = action === "pause";
    return change === "listens" ? null : action;
  });
}

it("pauses at a voice, and interrupts when it is certainly speech", () => {
  expect(actions(true, "begins", "certain", "ends")).toEqual(["pause", "interrupt", null]);
});

it("resumes after a voice that was no speech, as often as there is one", () => {
  expect(actions(true, "begins", "ends", "begins", "ends", "begins", "certain")).toEqual([
    "pause",
    "resume",
    "pause",
    "resume",
    "pause",
    "interrupt",
  ]);
});

it("does nothing while the model is silent, also if it begins to speak during the voice", () => {
  expect(actions(false, "begins", "certain", "ends")).toEqual([null, null, null]);
  expect(bargeInAction("certain", { speaks: true, paused: false })).toBeNull();
});

it("does nothing more when the model itself listens during the pause", () => {
  expect(actions(true, "begins", "listens", "certain", "ends")).toEqual([
    "pause",
    null,
    null,
    null,
  ]);
});
