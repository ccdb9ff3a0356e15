import { expect, test } from "vitest";
import type { RecordedTurn } from "../api/recordings.ts";
import { adjacentTurn } from "./timeline.ts";
import { turnTimeline } from "./turn-timeline.ts";

const TURN: RecordedTurn = {
  request_ts_ms: 4000,
  input: { text: "Why?", audio_duration_ms: 1500 },
  output: { text: "Because.", audio_duration_ms: 900 },
  timing: { elapsed_ms: 800, first_delta_ms: 500, kv_cache_length: 60 },
};

test("an utterance is placed before its request, and the answer after its first part", () => {
  const timeline = turnTimeline({
    mode: "half_duplex",
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
    mode: "chat",
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
