import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { concatSamples, type Samples } from "./pcm.ts";
import { SileroNetwork } from "./silero-network.ts";
import { fromDb, noise, ROOM_SOUNDS } from "./test-signals.ts";
import { LoudnessDetector, levelDb, SpeechDetector, STEP_SAMPLES } from "./voice-activity.ts";

const STEP_MS = 32;
const BLOCK = 320;
const SECOND = 16_000;
const WEIGHTS = new Uint16Array(bytesOf("silero-v6.f16").buffer);
const QUESTION = recording("../../../antiphon/cli/assets/question.wav");
const VOICES = ["english", "english_female", "chinese"].map((name) =>
  recording(`../../../edge/assets/ref_audio/${name}.wav`),
);

/** What onnxruntime computes from the original model for the first steps of the question. */
const EXPECTED = [
  0.344, 0.653, 0.967, 0.986, 0.983, 0.562, 0.998, 0.999, 1.0, 1.0, 1.0, 1.0, 1.0, 0.999, 1.0, 1.0,
  0.815, 0.998, 0.999, 1.0, 1.0, 1.0, 1.0, 0.913,
];

function bytesOf(path: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(readFileSync(new URL(path, import.meta.url)));
}

/** A WAV file with 16-bit samples at 16 kHz, without the silence before its first audible block. */
function recording(path: string): Samples {
  const samples = Float32Array.from(
    new Int16Array(bytesOf(path).buffer.slice(44)),
    (value) => value / 0x8000,
  );
  let start = 0;
  while (levelDb(samples.subarray(start, start + BLOCK)) < -45) start += BLOCK;
  return samples.subarray(start);
}

function inRoom(sound: Samples): Samples {
  const quiet = noise(SECOND, fromDb(-62));
  return concatSamples([quiet, sound, quiet]);
}

/** From the start of the sound, after a second of silence, until it is speech, ms. */
function delayBySilero(sound: Samples): number | undefined {
  const network = new SileroNetwork(WEIGHTS);
  const detector = new SpeechDetector();
  const signal = inRoom(sound);
  for (let at = 0; at + STEP_SAMPLES <= signal.length; at += STEP_SAMPLES) {
    const step = signal.subarray(at, at + STEP_SAMPLES);
    detector.push(network.step(step), levelDb(step), STEP_MS);
    if (detector.speaking) return (at + STEP_SAMPLES - SECOND) / 16;
  }
  return undefined;
}

function delayByLoudness(sound: Samples): number | undefined {
  const detector = new LoudnessDetector();
  const signal = inRoom(sound);
  for (let at = 0; at + BLOCK <= signal.length; at += BLOCK) {
    detector.push(signal.subarray(at, at + BLOCK), 20);
    if (detector.speaking) return (at + BLOCK - SECOND) / 16;
  }
  return undefined;
}

it("computes the probabilities of the original model", () => {
  const network = new SileroNetwork(WEIGHTS);
  const found = EXPECTED.map((_, n) => {
    const at = n * STEP_SAMPLES;
    return network.step(QUESTION.subarray(at, at + STEP_SAMPLES));
  });
  const errors = found.map((probability, n) => Math.abs(probability - (EXPECTED[n] as number)));
  expect(Math.max(...errors)).toBeLessThan(0.02); // float16 weights
});

it("refuses a file of other weights", () => {
  expect(() => new SileroNetwork(WEIGHTS.subarray(1))).toThrow(RangeError);
});

describe("what counts as speech", () => {
  it.each([QUESTION, ...VOICES])("speech does, within a quarter of a second (%#)", (voice) => {
    expect(delayBySilero(voice)).toBeLessThan(250);
  });

  it.each(Object.entries(ROOM_SOUNDS))("%s does not", (_, sound) => {
    expect(delayBySilero(sound())).toBeUndefined();
  });

  it("quiet speech does not: a television, or an echo of the model", () => {
    expect(delayBySilero(QUESTION.map((value) => value / 100))).toBeUndefined();
  });
});

it("is needed: by loudness, most of these sounds count as speech", () => {
  const counted = Object.values(ROOM_SOUNDS).filter(
    (sound) => delayByLoudness(sound()) !== undefined,
  );
  expect(counted.length).toBeGreaterThan(5);
});
