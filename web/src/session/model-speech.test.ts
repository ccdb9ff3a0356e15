import { expect, it } from "vitest";
import { type GateDecision, ResponseTimes, SpeechGate } from "./model-speech.ts";

const LISTEN = { is_listen: true, end_of_turn: false };
const SPEAK = { is_listen: false, end_of_turn: false };
const LAST = { is_listen: false, end_of_turn: true };

function verdicts(...units: (typeof LISTEN | "interrupt")[]): (GateDecision | undefined)[] {
  const gate = new SpeechGate();
  return units.map((unit) => (unit === "interrupt" ? void gate.interrupt() : gate.unit(unit)));
}

it("lets a turn that ended be heard to its end", () => {
  expect(verdicts(LISTEN, SPEAK, LAST, LISTEN)).toEqual(["ignore", "play", "play", "ignore"]);
});

it("silences a turn that stops in mid-speech", () => {
  expect(verdicts(SPEAK, SPEAK, LISTEN, LISTEN)).toEqual(["play", "play", "flush", "ignore"]);
});

it("plays nothing more of an interrupted turn, and all of the next one", () => {
  expect(verdicts(SPEAK, "interrupt", SPEAK, LISTEN, SPEAK)).toEqual([
    "play",
    undefined,
    "ignore",
    "ignore",
    "play",
  ]);
});

it("takes an interrupted turn's own end for its end", () => {
  expect(verdicts(SPEAK, "interrupt", LAST, SPEAK)).toEqual(["play", undefined, "ignore", "play"]);
});

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
