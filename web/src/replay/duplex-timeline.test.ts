import { expect, test } from "vitest";
import type { RecordedChunk, RecordedUnit, UnitTiming } from "../api/recordings.ts";
import { duplexTimeline } from "./duplex-timeline.ts";

const TIMING: UnitTiming = {
  prefill_ms: 10,
  llm_ms: 40,
  tts_prep_ms: 1,
  tts_ms: 20,
  token2wav_ms: 9,
  all_ms: 80,
  wall_clock_ms: 82,
  edge_to_worker_ms: 3,
  n_tokens: 4,
  kv_cache_length: 123,
};

function chunk(
  second: number,
  result: Partial<RecordedUnit> = {},
  more: Partial<RecordedChunk> = {},
): RecordedChunk {
  const receive_ts_ms = 1000 * (second + 1);
  const unit: RecordedUnit = {
    mode: result.text ? "SPEAK" : "LISTEN",
    publish_ts_ms: receive_ts_ms + 100,
    timing: TIMING,
    ...(result.text ? { ai_audio_duration_ms: 1000 } : {}),
    ...result,
  };
  return { receive_ts_ms, user_audio_duration_ms: 1000, result: unit, ...more };
}

const timeline = (...chunks: RecordedChunk[]) =>
  duplexTimeline({ mode: "duplex", chunks, events: [] });

test("consecutive units form one answer without gaps", () => {
  const { lines, lengthMs } = timeline(
    chunk(0, { text: "It is ", publish_ts_ms: 1100 }),
    chunk(1, { text: "Rome.", publish_ts_ms: 1300, end_of_turn: true }),
    chunk(2, { text: "Next.", publish_ts_ms: 5000, end_of_turn: true }),
  );
  expect(lines).toEqual([
    { role: "model", text: "It is Rome.", atMs: 1100, untilMs: 3100 },
    { role: "model", text: "Next.", atMs: 5000, untilMs: 6000 },
  ]);
  expect(lengthMs).toBe(6000);
});

test("audio dropped by a forced listen is excluded", () => {
  const { lines, events } = timeline(
    chunk(0, { text: "Heard, ", publish_ts_ms: 1100 }),
    chunk(0, { text: "not heard.", publish_ts_ms: 1200 }),
    chunk(1, {}, { receive_ts_ms: 1600, force_listen: true }),
    chunk(2, {}, { force_listen: true }),
  );
  expect(lines).toEqual([{ role: "model", text: "Heard,", atMs: 1100, untilMs: 1600 }]);
  expect(events).toEqual([{ type: "forced", atMs: 1600 }]);
});

test("segments follow the decisions, and costs add up by part", () => {
  const { segments, costs } = timeline(chunk(0), chunk(1), chunk(2, { text: "Yes." }), chunk(3));
  expect(segments.map(({ mode, fromMs }) => [mode, fromMs])).toEqual([
    ["listen", 1100],
    ["speak", 3100],
    ["listen", 4100],
  ]);
  expect(costs[0]).toEqual({
    atMs: 1100,
    read: 10,
    think: 40,
    speak: 30,
    total: 82,
    waited: 3,
    context: 123,
  });
});

test("a transcript is placed before its unit, and frames within their chunk", () => {
  const transcribed = chunk(8, { user_text: "What is the capital?" });
  const seen = chunk(9, {}, { user_frames: ["user_frames/9_0.jpg", "user_frames/9_1.jpg"] });
  const { lines, frames } = timeline(transcribed, seen);
  expect(lines[0]).toMatchObject({ role: "user", untilMs: 9100 });
  expect(lines[0]?.atMs).toBe(9100 - 1000 - 20 * 70);
  expect(frames.map(({ atMs }) => atMs)).toEqual([9000, 9500]);
});
