import { expect, it } from "vitest";
import { AUTO_GAIN, AutoGain } from "./mixer-channel.ts";

function settle(momentary: number, peak: number, seconds: number): AutoGain {
  const gain = new AutoGain();
  for (let step = 0; step < seconds * 10; step++) gain.update(momentary, peak, 0.1);
  return gain;
}

it("raises quiet speech to the target", () => {
  expect(settle(-35, -20, 10).gainDb).toBeCloseTo(12);
});

it("lowers loud speech faster than it raises quiet speech", () => {
  expect(settle(-15, -3, 1).gainDb).toBeCloseTo(-8);
  expect(settle(-35, -20, 1).gainDb).toBeCloseTo(AUTO_GAIN.riseDbPerS);
});

it("stays within its limits", () => {
  expect(settle(-49, -40, 60).gainDb).toBe(AUTO_GAIN.maxDb);
  expect(settle(0, 0, 60).gainDb).toBe(AUTO_GAIN.minDb);
});

it("does not change the gain during silence", () => {
  const gain = settle(-35, -20, 10);
  for (let at = 0; at < 100; at++) gain.update(-60, -50, 0.1);
  gain.update(-Infinity, -Infinity, 0.1);
  expect(gain.gainDb).toBeCloseTo(12);
});

it("keeps peaks below the limit", () => {
  expect(settle(-35, -6, 10).gainDb).toBeCloseTo(5);
});
