import { expect, it } from "vitest";
import { INPUT_RATE, type Samples } from "../audio/pcm.ts";
import { TurnAudioLog, utterance } from "./half-duplex-session.ts";

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
