import { expect, it } from "vitest";
import { MICROPHONE_DEFAULTS, microphoneConstraints, needsLoopback } from "./microphone.ts";

it("asks for the cancellation of everything, or for none", () => {
  expect(microphoneConstraints(MICROPHONE_DEFAULTS)).toMatchObject({ echoCancellation: "all" });
  const without = microphoneConstraints({ ...MICROPHONE_DEFAULTS, echoCancellation: false });
  expect(without).toMatchObject({ echoCancellation: false });
});

it("names a device only where one was chosen", () => {
  expect(microphoneConstraints(MICROPHONE_DEFAULTS)).not.toHaveProperty("deviceId");
  const chosen = microphoneConstraints({ ...MICROPHONE_DEFAULTS, deviceId: "x" });
  expect(chosen.deviceId).toEqual({ exact: "x" });
});

it("plays through a peer connection only for cancellers that hear nothing else", () => {
  const answers = [true, "remote-only", "all", false, undefined];
  const settings = answers.map((echoCancellation) =>
    echoCancellation === undefined ? {} : { echoCancellation },
  );
  expect(settings.map(needsLoopback)).toEqual([true, true, false, false, false]);
});
