import { expect, it } from "vitest";
import { MICROPHONE, microphoneConstraints, needsLoopback } from "./constraints.ts";

it("asks for the cancellation of everything, or for none", () => {
  expect(microphoneConstraints(MICROPHONE)).toMatchObject({ echoCancellation: "all" });
  const without = microphoneConstraints({ ...MICROPHONE, echoCancellation: false });
  expect(without).toMatchObject({ echoCancellation: false });
});

it("names a device only where one was chosen", () => {
  expect(microphoneConstraints(MICROPHONE)).not.toHaveProperty("deviceId");
  const chosen = microphoneConstraints({ ...MICROPHONE, deviceId: "x" });
  expect(chosen.deviceId).toEqual({ exact: "x" });
});

it("plays through a peer connection only for cancellers that hear nothing else", () => {
  const answers = [true, "remote-only", "all", false, undefined];
  const settings = answers.map((echoCancellation) =>
    echoCancellation === undefined ? {} : { echoCancellation },
  );
  expect(settings.map(needsLoopback)).toEqual([true, true, false, false, false]);
});
