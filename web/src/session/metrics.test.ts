import { expect, it } from "vitest";
import { RESULT } from "../protocol/fake-websocket.ts";
import { readMessage } from "../protocol/message-reader.ts";
import { duplexServerMessage, type Result } from "../protocol/server-messages.ts";
import { UnitLatencyTracker } from "./metrics.ts";

function result(currentMs: number, sentAtS: number): Result {
  const message = { ...RESULT, is_listen: true, current_time: currentMs, server_send_ts: sentAtS };
  return readMessage(duplexServerMessage, message) as Result;
}

it("measures from the chunk that a result answers", () => {
  const clock = new UnitLatencyTracker();
  clock.sent(1000, 5000);
  clock.sent(1000, 6000);
  expect(clock.received(result(1000, 0), 6100, 0).latencyMs).toBe(1100);
  expect(clock.received(result(2000, 0), 6300, 0)).toMatchObject({
    latencyMs: 300,
    costMs: 78.5,
    kvLength: 512,
  });
});

it("matches the right chunk after skipped chunks", () => {
  const clock = new UnitLatencyTracker();
  for (let n = 0; n < 5; n++) clock.sent(1000, 1000 * n);
  expect(clock.received(result(4000, 0), 3500, 0).latencyMs).toBe(500);
  expect(clock.received(result(5000, 0), 4200, 0).latencyMs).toBe(200);
});

it("measures drift from the first result, independent of clock offset", () => {
  const clock = new UnitLatencyTracker();
  const transit = [2000, 2000, 2150].map((ms) => clock.received(result(0, 100), 0, 100_000 + ms));
  expect(transit.map(({ driftMs }) => driftMs)).toEqual([0, 0, 150]);
});

it("realigns after lost chunks", () => {
  const clock = new UnitLatencyTracker();
  clock.sent(1000, 0);
  clock.sent(1000, 1000);
  clock.interrupted();
  clock.sent(1000, 5000);
  clock.sent(1000, 6000);
  const slow = { ...result(1000, 0), wall_clock_ms: 1100 };
  expect(clock.received(slow, 6150, 0).latencyMs).toBeNull();
  expect(clock.received(result(2000, 0), 6200, 0).latencyMs).toBe(200);
});

it("realigns if several results arrive at once", () => {
  const clock = new UnitLatencyTracker();
  clock.sent(1000, 0);
  clock.interrupted();
  clock.sent(1000, 7000);
  for (const ms of [4000, 5000, 6000]) {
    expect(clock.received(result(ms, 0), 7100, 0).latencyMs).toBeNull();
  }
  clock.sent(1000, 8000);
  expect(clock.received(result(7000, 0), 8020, 0).latencyMs).toBe(20);
});
