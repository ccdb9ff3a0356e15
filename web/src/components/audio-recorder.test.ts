// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { fakeStream, fakeTrack, stubAudio, stubDevices } from "../audio/fake-audio.ts";
import { isBuilt } from "../ui/page-build.ts";
import { type AudioRecorder, recordMicrophone } from "./audio-recorder.ts";

/** A recorder that stops by itself when the device disappears. */
class FakeRecorder {
  static last: FakeRecorder;
  readonly mimeType = "audio/webm";
  state = "inactive";
  onstop: (() => void) | null = null;
  ondataavailable: ((event: { data: Blob }) => void) | null = null;

  constructor() {
    FakeRecorder.last = this;
  }

  start(): void {
    this.state = "recording";
  }

  stop(): void {
    this.state = "inactive";
    this.ondataavailable?.({ data: new Blob(["sound"]) });
    this.onstop?.();
  }
}

beforeEach(() => {
  isBuilt.set(true);
  stubAudio();
  vi.stubGlobal("MediaRecorder", FakeRecorder);
  vi.stubGlobal("AnalyserNode", function FakeAnalyser() {
    return { getFloatTimeDomainData: () => undefined };
  });
});
afterEach(() => {
  document.body.replaceChildren();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a recording is kept if its device disappears", async () => {
  const track = fakeTrack();
  stubDevices(async () => fakeStream(track));
  const recorder = await recordMicrophone();
  FakeRecorder.last.stop();
  const audio = await recorder.stop();
  expect(audio.size).toBe(5);
  expect(audio.type).toBe("audio/webm");
  expect(track.stop).toHaveBeenCalled();
});

test("a recording that cannot be decoded is discarded", async () => {
  vi.useFakeTimers();
  vi.stubGlobal("OfflineAudioContext", function FakeOffline() {
    return { decodeAudioData: () => Promise.reject(new DOMException("broken", "EncodingError")) };
  });
  stubDevices(async () => fakeStream());
  const element = document.createElement("an-audio-recorder") as AudioRecorder;
  const discard = vi.fn();
  element.addEventListener("discard", discard);
  vi.advanceTimersByTime(1);
  document.body.append(element);
  await vi.advanceTimersByTimeAsync(1000);
  await element.finish();
  expect(discard).toHaveBeenCalledOnce();
});
