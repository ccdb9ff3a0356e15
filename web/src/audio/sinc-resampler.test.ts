import { describe, expect, it } from "vitest";
import { resample, SincResampler } from "./sinc-resampler.ts";
import { sine } from "./test-signals.ts";
import { levelDb } from "./voice-activity.ts";

const RATES: [number, number][] = [
  [48_000, 16_000],
  [44_100, 16_000],
  [24_000, 48_000],
  [24_000, 44_100],
  [96_000, 16_000],
];

/** Level of a resampled sine in dB, without the ends. */
function response(hz: number, from: number, to: number): number {
  const output = resample(sine(hz, from, 1), from, to);
  return levelDb(output.subarray(to / 10, -to / 10)) - levelDb(sine(hz, from, 1));
}

describe.each(RATES)("%i Hz to %i Hz", (from, to) => {
  const nyquist = Math.min(from, to) / 2;

  it("passes speech within 0.01 dB", () => {
    for (const part of [0.01, 0.1, 0.3, 0.5, 0.7, 0.85, 0.91]) {
      expect(Math.abs(response(part * nyquist, from, to))).toBeLessThan(0.01);
    }
  });

  it("returns the exact length without a time shift", () => {
    const output = resample(sine(440, from, 0.5), from, to);
    expect(output.length).toBe(Math.ceil(to / 2));
    const ideal = sine(440, to, 0.5);
    const middle = Math.floor(output.length / 2);
    expect(output[middle]).toBeCloseTo(ideal[middle] as number, 4);
  });

  it("does not depend on the block size", () => {
    const input = sine(1234, from, 0.2);
    const whole = resample(input, from, to);
    const resampler = new SincResampler(from, to);
    const pieces: number[] = [];
    for (let at = 0, size = 1; at < input.length; at += size, size = (size * 7) % 311) {
      pieces.push(...resampler.push(input.subarray(at, at + size)));
    }
    pieces.push(...resampler.flush());
    expect(pieces.length).toBeGreaterThanOrEqual(whole.length);
    expect(Float32Array.from(pieces.slice(0, whole.length))).toEqual(whole);
  });
});

describe.each(RATES.filter(([from, to]) => from > to))("%i Hz down to %i Hz", (from, to) => {
  it("suppresses aliases above the lower Nyquist frequency", () => {
    for (const hz of [to / 2 + 10, to * 0.55, to * 0.75, to, to * 1.2]) {
      if (hz < from / 2) expect(response(hz, from, to)).toBeLessThan(-90);
    }
  });
});

it("suppresses images when upsampling", () => {
  const hz = 3000;
  const output = resample(sine(hz, 24_000, 1), 24_000, 48_000);
  const ideal = sine(hz, 48_000, 1);
  const error = output.map((value, index) => value - (ideal[index] as number));
  expect(levelDb(error.subarray(4800, -4800))).toBeLessThan(-90);
});
