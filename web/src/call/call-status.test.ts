// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { type DuplexSessionState, NEW_DUPLEX } from "../session/duplex-session.ts";
import { Transcript } from "../session/transcript.ts";
import { callStatus, pendingSince } from "./call-status.ts";

const ACTIVE: DuplexSessionState = { ...NEW_DUPLEX, phase: "active" };
const HEARS: DuplexSessionState = { ...ACTIVE, userSpeaks: true };

function afterWords(): DuplexSessionState {
  const transcript = new Transcript();
  transcript.add("user", "What is the capital of Italy?");
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
