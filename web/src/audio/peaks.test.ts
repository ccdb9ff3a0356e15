import { expect, it } from "vitest";
import { peaksOf } from "./peaks.ts";

it("scales to the loudest part, whatever its sign", () => {
  const sound = Float32Array.of(0, 0.1, -0.4, 0.2, 0, 0);
  expect(peaksOf(sound, 3).map((peak) => Number(peak.toFixed(3)))).toEqual([0.25, 1, 0]);
});

it("has a value for every place, even of a sound that is shorter than that", () => {
  expect(peaksOf(Float32Array.of(0.5), 4)).toHaveLength(4);
  expect(peaksOf(new Float32Array(0), 2)).toEqual([0, 0]);
});
