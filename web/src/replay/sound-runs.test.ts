import { expect, test } from "vitest";
import type { Waveform } from "../audio/waveform.ts";
import { alignToSound, firstSoundMs, soundRuns } from "./sound-runs.ts";
import type { SpokenLine, Timeline } from "./timeline.ts";

/** Ten peaks per second. Each pair is a part with sound, in seconds. */
function shape(user: [number, number][], model: [number, number][] = []): Waveform {
  const channels = [user, model].map((parts) => {
    const peaks = new Float32Array(300).fill(0.005);
    for (const [from, until] of parts) peaks.fill(0.4, from * 10, until * 10);
    return peaks;
  });
  return { rate: 10, seconds: 30, channels };
}

function timeline(...lines: SpokenLine[]): Timeline {
  return { lengthMs: 30_000, lines, segments: [], frames: [], events: [], costs: [] };
}

const user = (atMs: number, untilMs: number): SpokenLine => ({
  role: "user",
  text: "What is the capital of Italy?",
  atMs,
  untilMs,
  estimated: true,
});

test("a pause within a sentence does not end a part with sound", () => {
  const talk = shape([
    [2, 3],
    [3.5, 5],
    [8, 9],
  ]);
  expect(soundRuns(talk, 0).map(({ fromMs, untilMs }) => [fromMs, untilMs])).toEqual([
    [2000, 5000],
    [8000, 9000],
  ]);
  expect(firstSoundMs(talk)).toBe(2000);
  expect(firstSoundMs(shape([]))).toBeNull();
});

test("words move to the sound that they were recognised from", () => {
  const talk = shape([
    [1, 3],
    [10, 12],
  ]);
  const model: SpokenLine = { role: "model", text: "Rome.", atMs: 6500, untilMs: 8000 };
  const { lines } = alignToSound(timeline(user(3000, 6000), model, user(13_500, 16_000)), talk);
  expect(lines.map(({ atMs, untilMs }) => [atMs, untilMs])).toEqual([
    [1000, 3000],
    [6500, 8000],
    [10_000, 12_000],
  ]);
});

test("words keep their times without sound and in constant noise", () => {
  const line = user(13_000, 16_000);
  for (const room of [shape([]), shape([[0, 30]]), shape([[1, 3]])]) {
    expect(alignToSound(timeline(line), room).lines).toEqual([line]);
  }
});
