import { expect, it } from "vitest";
import { type GateDecision, ResponseTimes, SpeechGate } from "./model-speech.ts";

const LISTEN = { is_listen: true, end_of_turn: false };
const SPEAK = { is_listen: false, end_of_turn: false };
const LAST = { is_listen: false, end_of_turn: true };

function verdicts(...units: (typeof LISTEN | "interrupt")[]): (GateDecision | undefined)[] {
  const gate = new SpeechGate();
  return units.map((unit) => (unit === "interrupt" ? void gate.interrupt() : gate.unit(unit)));
}

it("plays a finished turn completely", () => {
  expect(verdicts(LISTEN, SPEAK, LAST, LISTEN)).toEqual(["ignore", "play", "play", "ignore"]);
});

it("flushes a turn that stops in mid-speech", () => {
  expect(verdicts(SPEAK, SPEAK, LISTEN, LISTEN)).toEqual(["play", "play", "flush", "ignore"]);
});

it("ignores the rest of an interrupted turn and plays the next one", () => {
  expect(verdicts(SPEAK, "interrupt", SPEAK, LISTEN, SPEAK)).toEqual([
    "play",
    undefined,
    "ignore",
    "ignore",
    "play",
  ]);
});

it("ends an interrupted turn at its end of turn", () => {
  expect(verdicts(SPEAK, "interrupt", LAST, SPEAK)).toEqual(["play", undefined, "ignore", "play"]);
});

it("is in a turn until its end or an interruption", () => {
  const gate = new SpeechGate();
  const inTurn = [LISTEN, SPEAK, SPEAK, LAST, SPEAK, "interrupt" as const, SPEAK, LISTEN].map(
    (unit) => {
      if (unit === "interrupt") gate.interrupt();
      else gate.unit(unit);
      return gate.inTurn;
    },
  );
  expect(inTurn).toEqual([false, true, true, false, true, false, false, false]);
});

it("returns the last time and the median", () => {
  const times = new ResponseTimes();
  expect([times.last, times.median]).toEqual([null, null]);
  for (const ms of [900, 300, 500]) times.add(1000, 1000 + ms);
  expect([times.last, times.median]).toEqual([500, 500]);
});

it("counts only audio that answers speech", () => {
  const times = new ResponseTimes();
  times.add(-Infinity, 5000);
  times.add(5000, 4000);
  times.add(0, 60_000);
  expect(times.last).toBeNull();
});
