// @vitest-environment happy-dom

import { expect, it } from "vitest";
import { NEW_DUPLEX } from "../session/duplex-session.ts";
import { NO_METRICS } from "../session/metrics.ts";
import type { TranscriptLine } from "../session/transcript.ts";
import { NO_CALL_RECORDINGS } from "./call-media.ts";
import { callSummary, textLines } from "./call-summary.ts";

function line(role: "user" | "model", at: number, cut = false): TranscriptLine {
  return { id: at, role, text: ` said at ${at}`, at, done: true, interim: false, cut, spoken: 0 };
}

function call(transcript: TranscriptLine[], metrics: Partial<typeof NO_METRICS> = {}) {
  return {
    sessionState: { ...NEW_DUPLEX, transcript, metrics: { ...NO_METRICS, ...metrics } },
    since: 1000,
    until: 66_000,
    pending: null,
    cameraError: null,
    inputProblem: null,
    recorded: true,
    recordings: NO_CALL_RECORDINGS,
    file: null,
    monitored: true,
  };
}

it("has the length, the interruptions and the times of the answers", () => {
  const { lengthMs, ...rest } = callSummary(
    call([line("model", 1500)], {
      interruptions: [120, null, 400],
      firstAudioMedianMs: 1100,
      firstAudioLongestMs: 2000,
    }),
  );
  expect(lengthMs).toBe(65_000);
  expect(rest).toEqual({ interruptions: 3, stopMs: 260, answerMs: 1100, longestAnswerMs: 2000 });
});

it("has only what there is", () => {
  const nothing = { interruptions: null, stopMs: null, answerMs: null, longestAnswerMs: null };
  expect(callSummary(call([line("user", 2000)]))).toEqual({ lengthMs: 65_000, ...nothing });
  expect(callSummary({ ...call([]), since: null })).toEqual({ lengthMs: null, ...nothing });
  expect(callSummary(call([line("model", 1500)]))).toMatchObject({
    interruptions: 0,
    stopMs: null,
  });
  expect(callSummary(call([line("model", 1500)], { interruptions: [null] }))).toMatchObject({
    interruptions: 1,
    stopMs: null,
  });
});

it("has the times of the lines in the call", () => {
  expect(textLines(call([line("model", 5200, true), line("user", 6000)]))).toEqual([
    { role: "model", text: " said at 5200", cut: true, atMs: 4200 },
    { role: "user", text: " said at 6000", cut: false, atMs: 5000 },
  ]);
});
