import { expect, it } from "vitest";
import { tuneOpusForSpeech } from "./speaker.ts";

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
