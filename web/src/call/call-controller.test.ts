// @vitest-environment happy-dom

import { expect, it } from "vitest";
import { fakeStream, fakeTrack, stubDevices } from "../audio/fake-audio.ts";
import { CallController } from "./call-controller.ts";

it("closes a microphone that opens when there is no call any more", async () => {
  const track = fakeTrack();
  stubDevices(async () => fakeStream(track));
  await new CallController().switchToMicrophone();
  expect(track.stop).toHaveBeenCalledOnce();
});
