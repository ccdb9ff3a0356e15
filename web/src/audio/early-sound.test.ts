import { expect, test } from "vitest";
import { BLOCK_SAMPLES } from "./capture.ts";
import { EarlySound } from "./early-sound.ts";

const PER_S = 50;

/** Blocks of one value, so that a test can tell them apart. */
function push(early: EarlySound, seconds: number, speaks: boolean, value: number): void {
  for (let n = 0; n < seconds * PER_S; n++) {
    early.push(new Float32Array(BLOCK_SAMPLES).fill(value), speaks);
  }
}

/** Seconds of each value, in order. */
function taken(early: EarlySound): [number, number][] {
  const found: [number, number][] = [];
  for (const value of early.take()) {
    const last = found.at(-1);
    if (last?.[0] === value) last[1] += 1 / (PER_S * BLOCK_SAMPLES);
    else found.push([value, 1 / (PER_S * BLOCK_SAMPLES)]);
  }
  return found.map(([value, seconds]) => [value, Math.round(seconds * 100) / 100]);
}

test("speech is kept with 0.3 s around it, however long the silence lasts", () => {
  const early = new EarlySound();
  push(early, 4, false, 0.25);
  push(early, 1.5, true, 0.5);
  push(early, 9, false, 0.75);
  expect(taken(early)).toEqual([
    [0.25, 0.3],
    [0.5, 1.5],
    [0.75, 0.3],
  ]);
  expect(taken(early)).toEqual([]);
});

test("silence alone is not kept", () => {
  const early = new EarlySound();
  push(early, 4, false, 0.25);
  expect(taken(early)).toEqual([]);
});

test("the newest 2.4 s are kept", () => {
  const early = new EarlySound();
  push(early, 2, true, 0.25);
  push(early, 2, true, 0.5);
  expect(taken(early)).toEqual([
    [0.25, 0.4],
    [0.5, 2],
  ]);
});
