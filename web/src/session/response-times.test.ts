import { expect, it } from "vitest";
import { ResponseTimes } from "./response-times.ts";

it("keeps the last answer's time and the middle one", () => {
  const times = new ResponseTimes();
  expect([times.last, times.median]).toEqual([null, null]);
  for (const ms of [900, 300, 500]) times.add(1000, 1000 + ms);
  expect([times.last, times.median]).toEqual([500, 500]);
});

it("counts only sounds that answer something", () => {
  const times = new ResponseTimes();
  times.add(-Infinity, 5000);
  times.add(5000, 4000);
  times.add(0, 60_000);
  expect(times.last).toBeNull();
});
