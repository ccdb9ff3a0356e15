// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { fakeStream, fakeTrack, stubAudio, stubDevices } from "../audio/fake-audio.ts";
import { INPUT_RATE, type Samples } from "../audio/pcm.ts";
import { FakeWebSocket } from "../protocol/fake-websocket.ts";
import { HalfDuplexSession, TurnAudioLog, utterance } from "./half-duplex-session.ts";

beforeEach(() => {
  vi.useFakeTimers();
  stubAudio();
  stubDevices(async () => fakeStream(fakeTrack()));
  vi.stubGlobal("WebSocket", FakeWebSocket);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A session in which the user has asked something. */
async function asked(): Promise<HalfDuplexSession> {
  const session = new HalfDuplexSession({ prepare: {}, connection: { base: "http://edge/" } });
  await session.start();
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "queue_done", seq: 1, resume_token: "T1" });
  await vi.advanceTimersByTimeAsync(0);
  const prepared = { prompt_length: 1, recording_session_id: "r", timeout_s: 300 };
  FakeWebSocket.last.say({ type: "prepared", seq: 2, session_id: "hdx_1", ...prepared });
  FakeWebSocket.last.say({ type: "generating", seq: 3, speech_duration_ms: 900 });
  return session;
}

function say(seq: number, text: string): void {
  FakeWebSocket.last.say({ type: "chunk", seq, text_delta: text, audio_data: "AAAAPw==" });
}

it("is silent as soon as the user leaves, also if another answer begins", async () => {
  const session = await asked();
  const player = session.audio?.player as NonNullable<typeof session.audio>["player"];
  const push = vi.spyOn(player, "push").mockImplementation(() => undefined);
  const flush = vi.spyOn(player, "flush").mockImplementation(() => undefined);
  say(4, "One.");
  session.stop();
  expect(flush).toHaveBeenCalled();
  say(5, " Two.");
  FakeWebSocket.last.say({
    type: "turn_done",
    seq: 6,
    turn_index: 0,
    text: "One. Two.",
    goodbye: false,
  });
  FakeWebSocket.last.say({ type: "generating", seq: 7, speech_duration_ms: 900 });
  say(8, "Three.");
  FakeWebSocket.last.say({ type: "stopped", seq: 9, session_id: "hdx_1" });
  expect(push).toHaveBeenCalledOnce();
  const { phase, turns } = session.state.value;
  expect(phase).toBe("ended");
  expect(turns.map(({ reply, cut }) => ({ reply, cut }))).toEqual([{ reply: "One.", cut: true }]);
});

const seconds = (length: number, level: number): Samples =>
  new Float32Array(length * INPUT_RATE).fill(level);

function line(...parts: Samples[]): Samples {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

it("removes the silence around speech", () => {
  const input = line(seconds(2, 0.001), seconds(1, 0.3), seconds(1.2, 0.001));
  const speech = utterance(input, 1000);
  expect(speech.length / INPUT_RATE).toBeCloseTo(1.3, 2);
  expect(speech.filter((sample) => sample > 0.2)).toHaveLength(INPUT_RATE);
});

it("excludes earlier speech", () => {
  const input = line(seconds(1, 0.3), seconds(2, 0), seconds(0.5, 0.2), seconds(1, 0));
  expect(utterance(input, 500).filter((sample) => sample > 0.25)).toHaveLength(0);
});

it("is empty without input", () => {
  expect(utterance(new Float32Array(0), 500)).toHaveLength(0);
});

it("keeps both sides of each turn", () => {
  const turnAudio = new TurnAudioLog();
  for (const level of [0.1, 0.2]) {
    turnAudio.addInput(seconds(1, level));
    turnAudio.begin(500);
    turnAudio.addOutput(Float32Array.of(level, level));
    turnAudio.addOutput(Float32Array.of(level));
  }
  expect(turnAudio.of(0).user[100]).toBeCloseTo(0.1);
  expect(turnAudio.of(1).user[100]).toBeCloseTo(0.2);
  expect(turnAudio.of(1).model).toHaveLength(3);
  expect(turnAudio.of(7).model).toHaveLength(0);
  expect(turnAudio.of(1).model).toBe(turnAudio.of(1).model); // no copy for each reader
});

it("limits the length of buffered silence", () => {
  const turnAudio = new TurnAudioLog();
  for (let second = 0; second < 200; second++) turnAudio.addInput(seconds(1, 0.1));
  turnAudio.begin(300_000);
  expect(turnAudio.of(0).user.length).toBeLessThanOrEqual(76 * INPUT_RATE);
});
