import { expect, it } from "vitest";
import { MICROPHONE_DEFAULTS, microphoneConstraints, needsLoopback } from "./capture.ts";

it("requests full echo cancellation or none", () => {
  expect(microphoneConstraints(MICROPHONE_DEFAULTS)).toMatchObject({ echoCancellation: "all" });
  const without = microphoneConstraints({ ...MICROPHONE_DEFAULTS, echoCancellation: false });
  expect(without).toMatchObject({ echoCancellation: false });
});

it("sets a device only if one is selected", () => {
  expect(microphoneConstraints(MICROPHONE_DEFAULTS)).not.toHaveProperty("deviceId");
  const chosen = microphoneConstraints({ ...MICROPHONE_DEFAULTS, deviceId: "x" });
  expect(chosen.deviceId).toEqual({ exact: "x" });
});

it("uses a peer connection only if the echo canceller needs it", () => {
  const answers = [true, "remote-only", "all", false, undefined];
  const settings = answers.map((echoCancellation) =>
    echoCancellation === undefined ? {} : { echoCancellation },
  );
  expect(settings.map(needsLoopback)).toEqual([true, true, false, false, false]);
});
