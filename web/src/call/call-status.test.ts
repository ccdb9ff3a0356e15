// @vitest-environment happy-dom

import { expect, test } from "vitest";
import type { Capabilities } from "../api/answers.ts";
import { language } from "../i18n/language.ts";
import { type DuplexSessionState, NEW_DUPLEX } from "../session/duplex-session.ts";
import { Transcript } from "../session/transcript.ts";
import { capabilities } from "../shell/capabilities.ts";
import { callStatus, InputCheck, pendingSince, statusAnnouncement } from "./call-status.ts";

const ACTIVE: DuplexSessionState = { ...NEW_DUPLEX, phase: "active" };
const LOST: DuplexSessionState = {
  ...ACTIVE,
  connection: { state: "reconnecting", deadline: 0 },
};
const HEARS: DuplexSessionState = { ...ACTIVE, userSpeaks: true };

function afterWords(): DuplexSessionState {
  const transcript = new Transcript();
  transcript.addUserText("What is the capital of Italy?");
  return { ...ACTIVE, transcript: transcript.lines };
}

test("the model thinks from the end of the user's speech until it speaks", () => {
  expect(pendingSince(ACTIVE, HEARS, null, 1)).toBeNull();
  expect(pendingSince(HEARS, ACTIVE, null, 2)).toBe(2);
  expect(pendingSince(ACTIVE, ACTIVE, 2, 3)).toBe(2);
  expect(pendingSince(ACTIVE, { ...ACTIVE, modelSpeaks: true }, 2, 4)).toBeNull();
  expect(pendingSince(ACTIVE, { ...ACTIVE, phase: "paused" }, 2, 4)).toBeNull();
});

test("the words of the user start the time again", () => {
  expect(pendingSince(ACTIVE, afterWords(), 2, 5)).toBe(5);
});

test("the status says when the words were understood, and ends without an answer", () => {
  const now = performance.now();
  expect(callStatus(HEARS).mode).toBe("hearing");
  expect(callStatus(ACTIVE, now)).toMatchObject({ mode: "thinking", hint: "" });
  expect(callStatus(afterWords(), now)).toMatchObject({ mode: "thinking", hint: "Understood" });
  expect(callStatus(ACTIVE, now - 6000).mode).toBe("listening");
  expect(callStatus(afterWords(), now - 16_000).mode).toBe("listening");
});

test("the status says that the connection is lost, whatever the microphone hears", () => {
  const now = performance.now();
  for (const state of [LOST, { ...LOST, userSpeaks: true }, { ...LOST, modelSpeaks: true }]) {
    expect(callStatus(state, now)).toMatchObject({ mode: "connecting", title: "Reconnecting…" });
  }
  expect(statusAnnouncement({ sessionState: LOST, since: 0 })).toBe("Reconnecting…");
  language.set("zh");
  expect(callStatus(LOST).title).toBe("正在重新连接…");
  language.set("en");
});

test("a video call proposes a question about the picture to a model that sees", () => {
  const example = (camera: boolean): string => callStatus(ACTIVE, null, { camera }).hint;
  capabilities.set({ sees: true, hears: [] } as unknown as Capabilities);
  expect(example(true)).toContain("What do you see?");
  expect(example(false)).toContain("What is the capital of Japan?");
  capabilities.set({ sees: false, hears: [] } as unknown as Capabilities);
  expect(example(true)).toContain("What is the capital of Japan?");
  capabilities.set(null);
});

test("the end is announced only of a call that began", () => {
  const sessionState: DuplexSessionState = { ...NEW_DUPLEX, phase: "ended" };
  expect(statusAnnouncement({ sessionState, since: null })).toBe("");
  expect(statusAnnouncement({ sessionState, since: 0 })).toBe("Call ended");
});

/** Repeatable levels of speech: syllables and pauses, dBFS. */
function speech(tenths: number, seed: number): number[] {
  let state = seed;
  return Array.from({ length: tenths }, () => {
    state = (state * 48_271) % 2_147_483_647;
    return -35 + 25 * (state / 2_147_483_647);
  });
}

const QUIET = -90;

function silence(tenths: number): number[] {
  return new Array(tenths).fill(QUIET);
}

function problems(user: readonly number[], model: readonly number[]): (string | null)[] {
  const check = new InputCheck();
  return user.map((db, index) => check.push(db, model[index] ?? QUIET));
}

test("a microphone without a sound is reported after ten seconds in which the model is silent", () => {
  const found = problems(silence(200), [...speech(50, 3), ...silence(150)]);
  expect(found.slice(0, 149)).not.toContain("silent");
  expect(found.at(-1)).toBe("silent");
});

test("a microphone that was audible once is not reported", () => {
  expect(new Set(problems([-50, ...silence(300)], silence(301)))).toEqual(new Set([null]));
});

test("a microphone that says that it delivers nothing is reported until it delivers again", () => {
  const check = new InputCheck();
  check.push(-20, QUIET);
  check.deviceSilent = true;
  expect(check.push(QUIET, QUIET)).toBe("silent");
  check.deviceSilent = false;
  expect(check.push(-20, QUIET)).toBeNull();
});

test("an echo is reported, also if each turn is interrupted at once", () => {
  const model = [...speech(30, 7), ...silence(20), ...speech(20, 9), ...silence(30)];
  const echo = [QUIET, QUIET, ...model.slice(0, -2).map((db) => db - 15)];
  expect(problems(echo, model).at(-1)).toBe("echo");
  const pieces = Array.from({ length: 12 }, (_, i) => [...speech(3, i + 2), ...silence(9)]).flat();
  const copy = [QUIET, ...pieces.slice(0, -1).map((db) => db - 10)];
  expect(problems(copy, pieces).at(-1)).toBe("echo");
});

test("two sides that take turns, or speak at the same time, are no echo", () => {
  const model = [...speech(40, 11), ...silence(40), ...speech(40, 13), ...silence(40)];
  const user = [...silence(38), ...speech(44, 17), ...silence(36), ...speech(42, 19)];
  expect(problems(user, model)).not.toContain("echo");
  expect(problems(speech(160, 23), speech(160, 29))).not.toContain("echo");
});

test("a microphone that beeps once per second is no echo", () => {
  const beeps = Array.from({ length: 300 }, (_, i) => (i % 10 < 2 ? -15 : QUIET));
  const model = Array.from({ length: 300 }, (_, i) => (i % 70 < 40 ? -20 : QUIET));
  expect(problems(beeps, model)).not.toContain("echo");
});
