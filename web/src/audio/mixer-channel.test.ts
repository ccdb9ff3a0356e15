import { describe, expect, it, vi } from "vitest";
import { AUTO_GAIN, AutoGain, highPass, highShelf, LoudnessMeter } from "./mixer-channel.ts";
import { concatSamples, type Samples } from "./pcm.ts";
import { fromDb, sine } from "./test-signals.ts";

/** The 1 kHz test tones of EBU Tech 3341, as pairs of level (dBFS, peak) and seconds. */
function tones(rate: number, ...parts: [db: number, seconds: number][]): Samples {
  return concatSamples(parts.map(([db, seconds]) => sine(1000, rate, seconds, fromDb(db))));
}

function stereo(rate: number, signal: Samples): LoudnessMeter {
  const meter = new LoudnessMeter(rate, 2);
  meter.push(signal, signal);
  return meter;
}

describe("BS.1770-4", () => {
  it("has the coefficients of the standard at 48 kHz", () => {
    const first = highShelf(48_000);
    for (const [index, value] of [
      1.53512485958697, -2.69169618940638, 1.19839281085285,
    ].entries()) {
      expect(first.b[index]).toBeCloseTo(value, 10);
    }
    expect(first.a[0]).toBeCloseTo(-1.69065929318241, 10);
    expect(first.a[1]).toBeCloseTo(0.73248077421585, 10);
    expect(highPass(48_000).a[0]).toBeCloseTo(-1.99004745483398, 10);
    expect(highPass(48_000).a[1]).toBeCloseTo(0.99007225036621, 10);
  });

  it.each([16_000, 24_000, 44_100, 48_000])(
    "reads -3.01 LUFS for 997 Hz at full scale in one channel, at %i Hz",
    (rate) => {
      const meter = new LoudnessMeter(rate);
      meter.push(sine(997, rate, 5));
      for (const value of [meter.reading.integrated, meter.reading.momentary]) {
        expect(Math.abs(value + 3.01)).toBeLessThan(0.05);
      }
    },
  );

  it("reads -23 LUFS for 997 Hz at -20 dBFS in one channel", () => {
    const meter = new LoudnessMeter(16_000);
    meter.push(sine(997, 16_000, 5, fromDb(-19.99)));
    expect(Math.abs(meter.reading.integrated + 23)).toBeLessThan(0.05);
  });
});

describe.each([16_000, 48_000])("EBU Tech 3341 minimum requirements at %i Hz", (rate) => {
  const within = 0.1;

  it.each<[number, [number, number][], number]>([
    [1, [[-23, 20]], -23],
    [2, [[-33, 20]], -33],
    [
      3,
      [
        [-36, 10],
        [-23, 60],
        [-36, 10],
      ],
      -23,
    ],
    [
      4,
      [
        [-72, 10],
        [-36, 10],
        [-23, 60],
        [-36, 10],
        [-72, 10],
      ],
      -23,
    ],
    [
      5,
      [
        [-26, 20],
        [-20, 20.1],
        [-26, 20],
      ],
      -23,
    ],
  ])("case %i: integrated", (_, parts, expected) => {
    const { integrated } = stereo(rate, tones(rate, ...parts)).reading;
    expect(Math.abs(integrated - expected)).toBeLessThan(within);
  });

  it("case 9: short-term stays at -23 after 3 s", () => {
    const meter = new LoudnessMeter(rate, 2);
    const period: [number, number][] = [
      [-20, 1.34],
      [-30, 1.66],
    ];
    const signal = tones(rate, ...Array.from({ length: 5 }, () => period).flat());
    meter.push(signal.subarray(0, 3 * rate), signal.subarray(0, 3 * rate));
    for (let at = 3 * rate; at < signal.length; at += rate / 10) {
      const step = signal.subarray(at, at + rate / 10);
      meter.push(step, step);
      expect(Math.abs(meter.reading.shortTerm + 23)).toBeLessThan(within);
    }
  });

  it("case 12: momentary stays at -23 after 1 s", () => {
    const meter = new LoudnessMeter(rate, 2);
    const period: [number, number][] = [
      [-20, 0.18],
      [-30, 0.22],
    ];
    const signal = tones(rate, ...Array.from({ length: 25 }, () => period).flat());
    meter.push(signal.subarray(0, rate), signal.subarray(0, rate));
    for (let at = rate; at < signal.length; at += rate / 10) {
      const step = signal.subarray(at, at + rate / 10);
      meter.push(step, step);
      expect(Math.abs(meter.reading.momentary + 23)).toBeLessThan(within);
    }
  });
});

describe("LoudnessMeter", () => {
  it("reads -Infinity for silence", () => {
    const meter = new LoudnessMeter(16_000);
    meter.push(new Float32Array(32_000));
    expect(meter.reading).toEqual({
      momentary: -Infinity,
      shortTerm: -Infinity,
      integrated: -Infinity,
      peak: -Infinity,
    });
  });

  it("does not depend on the block size, and counts steps of 100 ms", () => {
    const signal = sine(440, 16_000, 2, 0.3);
    const whole = new LoudnessMeter(16_000);
    const pieces = new LoudnessMeter(16_000);
    expect(whole.push(signal)).toBe(20);
    let steps = 0;
    for (let at = 0; at < signal.length; at += 320)
      steps += pieces.push(signal.subarray(at, at + 320));
    expect(steps).toBe(20);
    expect(pieces.reading).toEqual(whole.reading);
    expect(pieces.reading.peak).toBeCloseTo(20 * Math.log10(0.3), 2);
  });
});

describe("the integrated loudness", () => {
  /** Speech-like levels: each second has another one. */
  const levels = Array.from({ length: 300 }, (_, n) => -60 + 45 * Math.sin(n * n) ** 2);

  it("is within 0.1 LU of the one over all blocks", () => {
    const rate = 8000;
    const meter = new LoudnessMeter(rate);
    const powers: number[] = [];
    for (const db of levels) {
      const second = sine(1000, rate, 1, fromDb(db));
      for (let at = 0; at < rate; at += rate / 10) {
        meter.push(second.subarray(at, at + rate / 10));
        const { momentary } = meter.reading;
        if (powers.length > 0 || at >= 0.3 * rate) powers.push(10 ** ((momentary + 0.691) / 10));
      }
    }
    const mean = (all: number[]): number => all.reduce((a, b) => a + b, 0) / all.length;
    const gated = powers.filter((power) => power > mean(powers) / 10);
    const exact = -0.691 + 10 * Math.log10(mean(gated));
    expect(Math.abs(meter.reading.integrated - exact)).toBeLessThan(0.1);
  });

  it("does not take longer after a long call", () => {
    const meter = new LoudnessMeter(8000);
    for (const db of levels) meter.push(sine(1000, 8000, 1, fromDb(db)));
    const log = vi.spyOn(Math, "log10");
    expect(meter.reading.integrated).toBeGreaterThan(-40);
    expect(log.mock.calls.length).toBeLessThan(10);
    log.mockRestore();
  });
});

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
