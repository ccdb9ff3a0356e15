// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Microphone } from "../audio/capture.ts";
import {
  FakeAudioContext,
  fakeStream,
  fakeTrack,
  stubAudio,
  stubDevices,
} from "../audio/fake-audio.ts";
import { FakeWebSocket } from "../protocol/fake-websocket.ts";
import { DuplexSession } from "./duplex-session.ts";

const newSession = (): DuplexSession =>
  new DuplexSession({
    kind: "audio",
    prepare: { prefix_system_prompt: "" },
    connection: { base: "http://edge/" },
  });

beforeEach(() => {
  stubAudio();
  vi.stubGlobal("WebSocket", FakeWebSocket);
});
afterEach(() => vi.unstubAllGlobals());

it("closes a microphone that opens after the session has ended", async () => {
  stubDevices(async () => fakeStream());
  const session = newSession();
  await session.start();
  session.stop();
  FakeWebSocket.last.close();
  expect(session.state.value.phase).toBe("ended");
  const track = fakeTrack();
  await session.setSource(new Microphone(fakeStream(track)));
  expect(track.stop).toHaveBeenCalledOnce();
});

it("keeps its microphone and closes another one that it cannot use", async () => {
  const [track, other] = [fakeTrack(), fakeTrack()];
  stubDevices(async () => fakeStream(track));
  const session = newSession();
  await session.start();
  FakeAudioContext.all[0]?.createMediaStreamSource.mockImplementation(() => {
    throw new DOMException("another sample rate", "NotSupportedError");
  });
  await expect(session.setSource(new Microphone(fakeStream(other)))).rejects.toThrow("sample rate");
  expect(other.stop).toHaveBeenCalledOnce();
  expect(track.stop).not.toHaveBeenCalled();
  session.stop();
  FakeWebSocket.last.close();
});
