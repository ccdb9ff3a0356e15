// @vitest-environment happy-dom

import { afterEach, expect, it, vi } from "vitest";
import { stubAudio } from "./fake-audio.ts";
import { Speaker, tuneOpusForSpeech } from "./speaker.ts";

afterEach(() => vi.unstubAllGlobals());

it("sets a transparent Opus bitrate without DTX", () => {
  const sdp =
    "a=rtpmap:111 opus/48000/2\r\na=fmtp:111 minptime=10;useinbandfec=1\r\na=rtpmap:0 PCMU/8000\r\n";
  expect(tuneOpusForSpeech(sdp)).toBe(
    "a=rtpmap:111 opus/48000/2\r\n" +
      "a=fmtp:111 minptime=10;useinbandfec=1;maxaveragebitrate=128000;usedtx=0\r\na=ptime:10\r\n" +
      "a=rtpmap:0 PCMU/8000\r\n",
  );
});

it("does not change a description without Opus", () => {
  expect(tuneOpusForSpeech("a=rtpmap:0 PCMU/8000\r\n")).toBe("a=rtpmap:0 PCMU/8000\r\n");
});

it("plays directly if the loopback that is added later fails", async () => {
  stubAudio();
  vi.stubGlobal(
    "RTCPeerConnection",
    class {
      createOffer = () => Promise.reject(new Error("forbidden"));
      close(): void {}
    },
  );
  vi.stubGlobal("Audio", class {});
  const speaker = await Speaker.open({ loopback: false });
  const cut = vi.spyOn(speaker.channel.node, "disconnect");
  await speaker.addLoopback();
  expect(speaker.loopback).toBe(false);
  expect(speaker.loopbackProblem).toBeDefined();
  expect(cut).not.toHaveBeenCalled();
  await speaker.close();
});
