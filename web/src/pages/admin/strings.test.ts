// @vitest-environment happy-dom

import { expect, test } from "vitest";
import type { RecordingInfo } from "../../api/answers.ts";
import { recordingTitle } from "./strings.ts";

const RECORDING: RecordingInfo = {
  id: "0".repeat(32),
  session_id: "adx_7",
  app_type: "audio_duplex",
  state: "complete",
  reason: "stopped",
  created_at: "2026-03-01T12:00:00Z",
  ended_at: "2026-03-01T12:00:01Z",
  duration_s: 1,
  worker_id: "w",
  chunks: 1,
  turns: null,
  first_words: "What is the capital of Italy?",
  size_bytes: 1,
  url: `/s/${"0".repeat(32)}`,
};

test("a recording is named by its first words", () => {
  expect(recordingTitle(RECORDING)).toBe("What is the capital of Italy?");
});

test("a recording without first words is named by its kind and time", () => {
  expect(recordingTitle({ ...RECORDING, first_words: "" })).toMatch(/^Voice call, .*\d:00/);
});
