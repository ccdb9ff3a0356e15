// @vitest-environment happy-dom

import { expect, it } from "vitest";
import { loudnessShare } from "../ui/controls.ts";
import { outlinePath, radiusAt } from "./voice-orb.ts";

it("stays within the limits of the amplitude", () => {
  const outline = { radius: 50, swing: 0.2, waves: 3, phase: 1.1 };
  const radii = Array.from({ length: 360 }, (_, i) => radiusAt(outline, (i * Math.PI) / 180));
  expect(Math.min(...radii)).toBeGreaterThanOrEqual(40);
  expect(Math.max(...radii)).toBeLessThanOrEqual(60);
  expect(Math.max(...radii) - Math.min(...radii)).toBeGreaterThan(10);
});

it("is a closed circle without waves", () => {
  const path = outlinePath({ radius: 50, swing: 0, waves: 3, phase: 0 });
  const numbers = (path.match(/-?[\d.]+/g) ?? []).map(Number);
  const radii = numbers.flatMap((x, i) => (i % 2 ? [] : [Math.hypot(x, numbers[i + 1] ?? 0)]));
  for (const radius of radii) expect(radius).toBeCloseTo(50, 0);
  expect(numbers.slice(0, 2)).toEqual(numbers.slice(-2));
  expect(path.endsWith("Z")).toBe(true);
});

it("maps silence to 0 and a loud voice to 1", () => {
  expect(loudnessShare(-Infinity)).toBe(0);
  expect(loudnessShare(-60)).toBe(0);
  expect(loudnessShare(-28)).toBeCloseTo(0.5);
  expect(loudnessShare(0)).toBe(1);
});
