import { expect, test } from "vitest";
import type { ChunkRecord, TurnRecord, UnitRecord, UnitTiming } from "../api/answers.ts";
import { adjacentTurn, duplexTimeline, turnTimeline } from "./timeline.ts";

const SESSION = {
  session_id: "adx_1",
  recording_id: "0".repeat(32),
  worker_id: "w",
  start_ts: "2026-03-01T12:00:00Z",
  config: {},
} as const;
const SPOKEN_TURNS = { ...SESSION, mode: "half_duplex", app_type: "half_duplex_audio" } as const;

const TURN: TurnRecord = {
  index: 0,
  request_ts_ms: 4000,
  input: { text: "Why?", audio_duration_ms: 1500 },
  output: { text: "Because.", audio_duration_ms: 900 },
  timing: { elapsed_ms: 800, first_delta_ms: 500, kv_cache_length: 60 },
};

test("an utterance is placed before its request, and the answer after its first part", () => {
  const timeline = turnTimeline({
    ...SPOKEN_TURNS,
    turns: [{ ...TURN, stopped: true }],
    events: [
      { ts_ms: 2400, type: "vad", speaking: true },
      { ts_ms: 3900, type: "vad", speaking: false },
      { ts_ms: 4700, type: "break" },
    ],
  });
  expect(timeline.lines).toMatchObject([
    { role: "user", text: "Why?", atMs: 2500, untilMs: 4000 },
    { role: "model", text: "Because.", atMs: 4500, untilMs: 5400, status: "stopped", firstMs: 500 },
  ]);
  expect(timeline.segments).toEqual([
    { mode: "listen", fromMs: 2400, untilMs: 3900 },
    { mode: "speak", fromMs: 4500, untilMs: 5400 },
  ]);
  expect(timeline.events).toEqual([{ atMs: 4700, type: "break" }]);
  expect(adjacentTurn(timeline, 0, 1)).toBe(2500);
  expect(adjacentTurn(timeline, 4500, -1)).toBe(2500);
  expect(adjacentTurn(timeline, 4500, 1)).toBeNull();
});

test("chat audio is placed before its request, and only the last message is on the timeline", () => {
  const messages = ["Hello!", "Why?"].map((text) => ({
    role: "user",
    parts: [{ type: "text" as const, text }],
  }));
  const turn = { ...TURN, request_ts_ms: 0, input: { ...TURN.input, messages } };
  const timeline = turnTimeline({
    ...SESSION,
    mode: "chat",
    app_type: "chat",
    turns: [turn],
    events: [],
    merged_replay_lead_ms: 1500,
  });
  expect(timeline.lines.map(({ text, atMs, untilMs }) => [text, atMs, untilMs])).toEqual([
    ["Hello!", 0, 0],
    ["Why?", 0, 1500],
    ["Because.", 2000, 2900],
  ]);
});

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
  n_tts_tokens: 8,
  kv_cache_length: 123,
  vision_slices: 0,
  vision_tokens: 0,
};

function chunk(
  second: number,
  result: Partial<UnitRecord> = {},
  more: Partial<ChunkRecord> = {},
): ChunkRecord {
  const receive_ts_ms = 1000 * (second + 1);
  const unit: UnitRecord = {
    mode: result.text ? "SPEAK" : "LISTEN",
    publish_ts_ms: receive_ts_ms + 100,
    epoch: 1,
    timing: TIMING,
    ...(result.text ? { ai_audio_duration_ms: 1000 } : {}),
    ...result,
  };
  const place = { index: second, input_n: second + 1, receive_ts_ms };
  return { ...place, user_audio_duration_ms: 1000, result: unit, ...more };
}

const timeline = (...chunks: ChunkRecord[]) =>
  duplexTimeline({
    ...SESSION,
    mode: "duplex",
    app_type: "audio_duplex",
    chunks,
    events: [],
    diagnostics: [],
  });

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
  expect(lines).toEqual([{ role: "model", text: "Heard,", atMs: 1100, untilMs: 1600, cut: true }]);
  expect(events).toEqual([{ type: "forced", atMs: 1600 }]);
});

test("an answer that speech or the end of the call interrupts is cut", () => {
  const { lines } = timeline(
    chunk(0, { text: "Whole.", end_of_turn: true }),
    chunk(1, { text: "The story goes that" }),
    chunk(2, { user_text: "Stop." }),
    chunk(3, { text: "All right.", end_of_turn: true }),
    chunk(4),
    chunk(5, { text: "And then" }),
  );
  const spoken = lines.filter(({ role }) => role === "model");
  expect(spoken.map(({ text, cut }) => [text, cut ?? false])).toEqual([
    ["Whole.", false],
    ["The story goes that", true],
    ["All right.", false],
    ["And then", true],
  ]);
});

test("an answer of which nothing was played does not cut the one before", () => {
  const { lines } = timeline(
    chunk(0, { text: "Whole.", end_of_turn: true }),
    chunk(1, { text: "Not heard.", publish_ts_ms: 1900 }),
    chunk(2, {}, { receive_ts_ms: 1950, force_listen: true }),
  );
  expect(lines).toEqual([{ role: "model", text: "Whole.", atMs: 1100, untilMs: 1950 }]);
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

test("has no words of the user before a greeting", () => {
  const timeline = turnTimeline({
    ...SPOKEN_TURNS,
    turns: [{ ...TURN, input: {} }],
    events: [],
  });
  expect(timeline.lines.map(({ role }) => role)).toEqual(["model"]);
});
