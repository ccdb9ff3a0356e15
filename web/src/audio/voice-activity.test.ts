import { expect, it } from "vitest";
import { concatSamples } from "./pcm.ts";
import { fromDb, noise } from "./test-signals.ts";
import { LOUDNESS_LIMITS, LoudnessDetector } from "./voice-activity.ts";

const BLOCK_MS = 20;
const BLOCK = 320;

/** Changes and their times in ms. */
function changes(...parts: [db: number, seconds: number][]): [boolean, number][] {
  const detector = new LoudnessDetector();
  const signal = concatSamples(parts.map(([db, s]) => noise(16_000 * s, fromDb(db))));
  const found: [boolean, number][] = [];
  for (let at = 0; at < signal.length; at += BLOCK) {
    const before = detector.speaking;
    detector.push(signal.subarray(at, at + BLOCK), BLOCK_MS);
    if (detector.speaking !== before) {
      found.push([detector.speaking, ((at + BLOCK) / 16_000) * 1000]);
    }
  }
  return found;
}

it("detects speech within 120 ms, and its end after a pause", () => {
  const [begin, end] = changes([-70, 2], [-25, 1], [-70, 2]);
  expect(begin).toEqual([true, 2000 + LOUDNESS_LIMITS.onsetMs]);
  expect(end?.[0]).toBe(false);
  expect(end?.[1]).toBeCloseTo(3000 + LOUDNESS_LIMITS.hangoverMs, -2);
});

it("ignores clicks and short pauses between words", () => {
  expect(changes([-70, 1], [-20, 0.06], [-70, 1])).toEqual([]);
  expect(changes([-70, 1], [-25, 0.5], [-70, 0.3], [-25, 0.5], [-70, 0.2])).toHaveLength(1);
});

it("treats steady noise as background, and detects speech above it", () => {
  const found = changes([-40, 15], [-20, 1], [-40, 2]);
  const spoken = found.filter(([begin, at]) => begin && at > 15_000);
  expect(spoken).toHaveLength(1);
  expect(spoken[0]?.[1]).toBeLessThan(15_200);
});

it("ignores input below the minimum level", () => {
  expect(changes([-90, 1], [-50, 3])).toEqual([]);
});
