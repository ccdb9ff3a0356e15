// @vitest-environment happy-dom

import { expect, it } from "vitest";
import type { Phase } from "../session/session.ts";
import { queueChime } from "./chimes.ts";

const at = (position: number) => ({
  phase: "queued" as const,
  queue: { position, length: 3, etaS: 30, reason: null, at: 0, stale: false },
});
const out = (phase: Phase) => ({ phase, queue: null });

it("plays when the position improves or a worker is assigned, not when the user leaves", () => {
  expect(queueChime(at(3), at(2))).toBe("closer");
  expect(queueChime(at(1), out("preparing"))).toBe("ready");
  expect(queueChime(at(1), out("ended"))).toBeNull();
  expect(queueChime(at(2), at(2))).toBeNull();
  expect(queueChime(out("connecting"), at(2))).toBeNull();
  expect(queueChime(out("connecting"), out("preparing"))).toBeNull();
});
