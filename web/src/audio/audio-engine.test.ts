// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { AudioEngine } from "./audio-engine.ts";
import { openMicrophone } from "./capture.ts";
import { FakeAudioContext, fakeStream, fakeTrack, stubAudio, stubDevices } from "./fake-audio.ts";

const missing = (name: string) => Promise.reject(new DOMException("not connected", name));

beforeEach(stubAudio);
afterEach(() => vi.unstubAllGlobals());

it("plays on the default output if the selected speaker is not connected", async () => {
  stubDevices(async () => fakeStream());
  FakeAudioContext.setSink = () => missing("NotFoundError");
  const audio = await AudioEngine.open({ speakerId: "headset" });
  expect(FakeAudioContext.all.at(-1)?.setSinkId).toHaveBeenCalledWith("headset");
  await audio.close();
});

it.each(["NotFoundError", "OverconstrainedError"])(
  "opens the default microphone if the selected one is not connected (%s)",
  async (name) => {
    const stream = fakeStream();
    const open = stubDevices(async ({ audio }) =>
      (audio as MediaTrackConstraints).deviceId ? missing(name) : stream,
    );
    const options = { echoCancellation: true, noiseSuppression: false, autoGainControl: false };
    const microphone = await openMicrophone({ ...options, deviceId: "headset" });
    expect(microphone.stream).toBe(stream);
    expect(open).toHaveBeenLastCalledWith({
      audio: expect.objectContaining({ echoCancellation: "all", noiseSuppression: false }),
    });
  },
);

it("does not open another microphone if the selected one is refused", async () => {
  const open = stubDevices(() => missing("NotAllowedError"));
  const options = { echoCancellation: true, noiseSuppression: true, autoGainControl: false };
  await expect(openMicrophone({ ...options, deviceId: "x" })).rejects.toThrow("not connected");
  expect(open).toHaveBeenCalledOnce();
});

it("rejects once without a selected microphone", async () => {
  const open = stubDevices(() => missing("NotFoundError"));
  await expect(openMicrophone()).rejects.toThrow("not connected");
  expect(open).toHaveBeenCalledOnce();
});

it("closes everything if the audio cannot start", async () => {
  const track = fakeTrack();
  stubDevices(async () => fakeStream(track));
  FakeAudioContext.loadWorklet = () => missing("AbortError");
  await expect(AudioEngine.open()).rejects.toThrow("not connected");
  expect(FakeAudioContext.all.map(({ state }) => state)).toEqual(["closed"]);
  expect(track.stop).toHaveBeenCalled();
});
