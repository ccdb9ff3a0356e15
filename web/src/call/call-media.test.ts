// @vitest-environment happy-dom

import { afterEach, expect, it, vi } from "vitest";
import { AudioEngine } from "../audio/audio-engine.ts";
import {
  FakeAudioContext,
  fakeStream,
  fakeTrack,
  stubAudio,
  stubDevices,
} from "../audio/fake-audio.ts";
import { CallCamera, CallRecorder } from "./call-media.ts";

function stubVideo(play: () => Promise<void> = async () => undefined): void {
  vi.spyOn(document, "createElement").mockImplementation(
    () => ({ play, srcObject: null }) as unknown as HTMLElement,
  );
}

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

it("closes a camera that opens after the call has ended", async () => {
  stubVideo();
  const track = fakeTrack();
  let allow: (stream: MediaStream) => void = () => undefined;
  stubDevices(() => new Promise((resolve) => (allow = resolve)));
  const camera = new CallCamera();
  const opening = camera.open({});
  camera.close();
  allow(fakeStream(track));
  await opening;
  expect(track.stop).toHaveBeenCalled();
  expect(camera.state.value.stream).toBeNull();
  expect(camera.videoElement).toBeUndefined();
});

it("keeps the camera that was opened last", async () => {
  stubVideo();
  const allow: ((stream: MediaStream) => void)[] = [];
  stubDevices(() => new Promise((resolve) => allow.push(resolve)));
  const camera = new CallCamera();
  const opening = [camera.open({ facing: "user" }), camera.open({ facing: "environment" })];
  const [front, back] = [fakeTrack(), fakeTrack()];
  allow[1]?.(fakeStream(back));
  allow[0]?.(fakeStream(front));
  await Promise.all(opening);
  expect(front.stop).toHaveBeenCalled();
  expect(back.stop).not.toHaveBeenCalled();
  camera.close();
  expect(back.stop).toHaveBeenCalled();
});

it("closes a camera whose video does not play", async () => {
  stubVideo(() => Promise.reject(new DOMException("no video", "AbortError")));
  const track = fakeTrack();
  stubDevices(async () => fakeStream(track));
  await expect(new CallCamera().open({})).rejects.toThrow("no video");
  expect(track.stop).toHaveBeenCalled();
});

it("opens another camera if the selected one is not connected", async () => {
  stubVideo();
  const open = stubDevices(async ({ video }) => {
    if ((video as MediaTrackConstraints).deviceId) {
      throw new DOMException("not connected", "OverconstrainedError");
    }
    return fakeStream();
  });
  const camera = new CallCamera();
  await camera.open({ deviceId: "x", facing: "environment" });
  expect(camera.videoElement).toBeDefined();
  expect(open).toHaveBeenLastCalledWith({
    video: expect.objectContaining({ facingMode: { ideal: "environment" } }),
  });
});

it("says once that the browser cannot record the video, and records the audio", async () => {
  stubAudio();
  stubDevices(async () => fakeStream());
  vi.stubGlobal("MediaRecorder", { isTypeSupported: () => true });
  const audio = await AudioEngine.open();
  const refused = new DOMException("another sample rate", "NotSupportedError");
  FakeAudioContext.all.at(-1)?.createMediaStreamSource.mockImplementation(() => {
    throw refused;
  });
  const onFilmError = vi.fn();
  const recorder = new CallRecorder(audio, {
    conversation: "omni_1",
    audio: true,
    video: true,
    videoElement: () => undefined,
    caption: () => "",
    onFilmError,
  });
  recorder.start();
  recorder.pause();
  recorder.start();
  expect(onFilmError).toHaveBeenCalledExactlyOnceWith(refused);
  expect((await recorder.finish()).video).toBeNull();
  await audio.close();
});
