// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { AudioEngine } from "./audio-engine.ts";
import { Microphone, openMicrophone } from "./capture.ts";
import { FakeAudioContext, fakeStream, fakeTrack, stubAudio, stubDevices } from "./fake-audio.ts";
import { Speaker } from "./speaker.ts";

const missing = (name: string) => Promise.reject(new DOMException("not connected", name));

beforeEach(stubAudio);
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

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

it("adds the loopback for another microphone that needs it", async () => {
  const add = vi.spyOn(Speaker.prototype, "addLoopback").mockResolvedValue();
  stubDevices(async () => fakeStream());
  const getSettings = () => ({ echoCancellation: true });
  const other = (): Microphone =>
    new Microphone(fakeStream(Object.assign(fakeTrack(), { getSettings })));
  const audio = await AudioEngine.open();
  await audio.replaceSource(new Microphone(fakeStream()));
  expect(add).not.toHaveBeenCalled();
  await audio.replaceSource(other());
  expect(add).toHaveBeenCalledOnce();
  await audio.close();
  const direct = await AudioEngine.open({ loopback: "never" });
  await direct.replaceSource(other());
  expect(add).toHaveBeenCalledOnce();
  await direct.close();
});

it("says when the present microphone delivers nothing", async () => {
  const [track, other] = [fakeTrack(), fakeTrack()];
  stubDevices(async () => fakeStream(track));
  const audio = await AudioEngine.open();
  const said: boolean[] = [];
  audio.on("sourceSilence", (silent) => said.push(silent));
  track.dispatchEvent(new Event("mute"));
  track.dispatchEvent(new Event("unmute"));
  await audio.replaceSource(new Microphone(fakeStream(other)));
  track.dispatchEvent(new Event("mute"));
  expect(said).toEqual([true, false]);
  await audio.close();
});
