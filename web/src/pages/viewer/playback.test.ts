// @vitest-environment happy-dom

import { expect, test } from "vitest";
import { linkedMs, momentHash } from "./playback.ts";

test("an address names a position", () => {
  expect(linkedMs("#t=12.5")).toBe(12_500);
  expect(linkedMs("#t=now")).toBeNull();
  expect(linkedMs("")).toBeNull();
  expect(momentHash(12_480)).toBe("#t=12.5");
  expect(momentHash(0)).toBe("#t=0");
});
