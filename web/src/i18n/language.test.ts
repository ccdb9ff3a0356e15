// @vitest-environment happy-dom

import { afterEach, expect, it } from "vitest";
import { formatDuration, formatSeconds, language } from "./language.ts";

afterEach(() => language.set("en"));

it("writes units as the texts of both languages do", () => {
  language.set("en");
  expect([formatDuration(480), formatDuration(3240), formatSeconds(0.8)]).toEqual([
    "480 ms",
    "3.2 s",
    "0.8 s",
  ]);
  language.set("zh");
  expect([formatDuration(480), formatDuration(3240)]).toEqual(["480 毫秒", "3.2 秒"]);
});
