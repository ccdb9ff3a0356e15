// @vitest-environment happy-dom

import { expect, test } from "vitest";
import { linkedMs, momentHash, recordingName } from "./playback.ts";

test("an address names a position", () => {
  expect(linkedMs("#t=12.5")).toBe(12_500);
  expect(linkedMs("#t=now")).toBeNull();
  expect(linkedMs("")).toBeNull();
  expect(momentHash(12_480)).toBe("#t=12.5");
  expect(momentHash(0)).toBe("#t=0");
});

test("an address names a recording", () => {
  expect(recordingName("/s/adx_1")).toBe("adx_1");
  expect(recordingName("/s/a%20b")).toBe("a b");
  expect(recordingName("/s/%E0%A4%A")).toBe("%E0%A4%A");
  expect(recordingName("/s")).toBe("");
});
