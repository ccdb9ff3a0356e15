import { expect, it } from "vitest";
import { AUTO_GAIN, AutoGain } from "./auto-gain.ts";

function settle(momentary: number, peak: number, seconds: number): AutoGain {
  const gain = new AutoGain();
  for (let step = 0; step < seconds * 10; step++) gain.update(momentary, peak, 0.1);
  return gain;
}

it("brings quiet speech to its target", () => {
  expect(settle(-35, -20, 10).gainDb).toBeCloseTo(12);
});

it("brings loud speech down, faster than it would raise it", () => {
  expect(settle(-15, -3, 1).gainDb).toBeCloseTo(-8);
  expect(settle(-35, -20, 1).gainDb).toBeCloseTo(AUTO_GAIN.riseDbPerS);
});

it("keeps its limits", () => {
  expect(settle(-49, -40, 60).gainDb).toBe(AUTO_GAIN.maxDb);
  expect(settle(0, 0, 60).gainDb).toBe(AUTO_GAIN.minDb);
});

it("leaves the gain alone while nobody speaks", () => {
  const gain = settle(-35, -20, 10);
  for (let at = 0; at < 100; at++) gain.update(-60, -50, 0.1);
  gain.update(-Infinity, -Infinity, 0.1);
  expect(gain.gainDb).toBeCloseTo(12);
});

it("raises no peak over the ceiling", () => {
  expect(settle(-35, -6, 10).gainDb).toBeCloseTo(5);
});
