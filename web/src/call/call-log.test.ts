import { expect, it, test } from "vitest";
import { NO_METRICS, type UnitMetrics } from "../session/metrics.ts";
import { EventLog, UnitHistory } from "./call-log.ts";

test("keeps the newest 200 messages, without audio and long texts", () => {
  const log = new EventLog();
  for (let i = 0; i < 250; i += 1) log.push({ sent: false, message: { type: "result", i } });
  const message = { type: "audio_chunk", audio: new Float32Array(16_000), image: "x".repeat(5000) };
  log.push({ sent: true, message });
  expect(log.value.length).toBe(200);
  const [newest, before] = log.value;
  expect(newest).toMatchObject({ sent: true, type: "audio_chunk" });
  expect(newest?.text).toContain('"audio":"[64000 bytes]"');
  expect(newest?.text.length).toBeLessThan(250);
  expect(before).toMatchObject({ type: "result", text: '{"i":249}' });
  log.clear();
  expect(log.value).toEqual([]);
});

function unit(at: number, change: Partial<UnitMetrics> = {}): UnitMetrics {
  const costs = { costMs: 50, llmMs: 30, ttsMs: 10, wallClockMs: 60 };
  const sizes = { kvLength: 100, tokens: 5, visionTokens: 0 };
  return { at, listen: true, latencyMs: 90, driftMs: 0, ...costs, ...sizes, ...change };
}

it("counts time from the first unit and uses null for unknown values", () => {
  const history = new UnitHistory();
  history.push(unit(5000), NO_METRICS);
  history.push(unit(6500, { latencyMs: null, kvLength: 130 }), { ...NO_METRICS, gapMs: 40 });
  expect(history.columns).toMatchObject({
    time: [0, 1.5],
    latency: [90, null],
    context: [100, 130],
    gaps: [0, 40],
    cost: [50, 50],
    llmCost: [30, 30],
  });
});

it("records the time to first audio once", () => {
  const history = new UnitHistory();
  for (const firstAudioMs of [null, 820, 820, 640]) {
    history.push(unit(0), { ...NO_METRICS, firstAudioMs });
  }
  expect(history.columns.firstAudio).toEqual([null, 820, null, 640]);
});

it("drops the oldest values of all series", () => {
  const history = new UnitHistory();
  for (let i = 0; i < 3100; i += 1) history.push(unit(i * 1000), NO_METRICS);
  const lengths = new Set(Object.values(history.columns).map((column) => column.length));
  expect([...lengths]).toEqual([3000]);
  expect(history.columns.time[0]).toBe(100);
});
