import { expect, it } from "vitest";
import { concatSamples } from "./pcm.ts";
import { fromDb, noise } from "./test-signals.ts";
import {
  LOUDNESS_LIMITS,
  LoudnessDetector,
  SpeechDetector,
  UserVoice,
  type VoiceChange,
} from "./voice-activity.ts";

const BLOCK_MS = 20;
const BLOCK = 320;

/** Changes and their times in ms. */
function changes(...parts: [db: number, seconds: number][]): [boolean, number][] {
  const detector = new LoudnessDetector();
  const signal = concatSamples(parts.map(([db, s]) => noise(16_000 * s, fromDb(db))));
  const found: [boolean, number][] = [];
  for (let at = 0; at < signal.length; at += BLOCK) {
    const before = detector.speaking;
    detector.push(signal.subarray(at, at + BLOCK), BLOCK_MS);
    if (detector.speaking !== before) {
      found.push([detector.speaking, ((at + BLOCK) / 16_000) * 1000]);
    }
  }
  return found;
}

it("detects speech within 120 ms, and its end after a pause", () => {
  const [begin, end] = changes([-70, 2], [-25, 1], [-70, 2]);
  expect(begin).toEqual([true, 2000 + LOUDNESS_LIMITS.onsetMs]);
  expect(end?.[0]).toBe(false);
  expect(end?.[1]).toBeCloseTo(3000 + LOUDNESS_LIMITS.hangoverMs, -2);
});

it("ignores clicks and short pauses between words", () => {
  expect(changes([-70, 1], [-20, 0.06], [-70, 1])).toEqual([]);
  expect(changes([-70, 1], [-25, 0.5], [-70, 0.3], [-25, 0.5], [-70, 0.2])).toHaveLength(1);
});

it("treats steady noise as background, and detects speech above it", () => {
  const found = changes([-40, 15], [-20, 1], [-40, 2]);
  const spoken = found.filter(([begin, at]) => begin && at > 15_000);
  expect(spoken).toHaveLength(1);
  expect(spoken[0]?.[1]).toBeLessThan(15_200);
});

it("ignores input below the minimum level", () => {
  expect(changes([-90, 1], [-50, 3])).toEqual([]);
});

/** A detector after frames of 32 ms. */
function after(...frames: [probability: number, db: number][]): SpeechDetector {
  const detector = new SpeechDetector();
  for (const [probability, db] of frames) detector.push(probability, db, 32);
  return detector;
}

function speaking(...frames: [probability: number, db: number][]): boolean {
  return after(...frames).speaking;
}

function repeated(frames: number, probability: number, db: number): [number, number][] {
  return Array.from({ length: frames }, () => [probability, db]);
}

it("needs a high probability to start speech, and a lower one to continue it", () => {
  expect(speaking(...repeated(20, 0.7, -25))).toBe(false);
  expect(speaking(...repeated(2, 0.9, -25))).toBe(false);
  expect(speaking(...repeated(3, 0.9, -25))).toBe(true);
  expect(speaking(...repeated(3, 0.9, -25), ...repeated(20, 0.4, -25))).toBe(true);
});

it("does not take the fading end of a loud sound for speech", () => {
  const burst = repeated(2, 0.2, -10);
  expect(speaking(...burst, ...repeated(14, 0.95, -23))).toBe(false);
  expect(speaking(...burst, ...repeated(3, 0.95, -21))).toBe(true);
});

it("detects speech within 0.6 s of a loud sound, and quieter syllables do not end it", () => {
  expect(speaking(...repeated(1, 0.2, -5), ...repeated(19, 0.95, -30))).toBe(true);
  expect(speaking(...repeated(3, 0.95, -15), ...repeated(20, 0.95, -35))).toBe(true);
});

const LOUD = noise(320, fromDb(-20));
const QUIET = noise(320, fromDb(-80));

/** The changes during blocks of 20 ms. */
function voiceChanges(
  voice: UserVoice,
  ...parts: [block: typeof LOUD, blocks: number][]
): VoiceChange[] {
  const found: VoiceChange[] = [];
  for (const [block, blocks] of parts) {
    for (let n = 0; n < blocks; n++) found.push(...voice.push(block, 20));
  }
  return found;
}

it("goes by loudness without a network, while it is loaded, and if that fails", async () => {
  const failed = Promise.reject(new Error("offline"));
  for (const loading of [undefined, new Promise<never>(() => undefined), failed]) {
    const voice = new UserVoice(loading);
    await Promise.resolve();
    expect(voiceChanges(voice, [LOUD, 10], [QUIET, 50])).toEqual(["begins", "ends"]);
  }
});

it("goes by the network once it is loaded: noise does not count, speech does", async () => {
  let probability = 0.1;
  const voice = new UserVoice(Promise.resolve({ step: () => probability }));
  await Promise.resolve();
  expect(voiceChanges(voice, [QUIET, 5], [LOUD, 50], [QUIET, 50])).toEqual([]);
  probability = 0.9;
  expect(voiceChanges(voice, [LOUD, 10])).toEqual(["begins"]);
  expect(voice.quietMs).toBe(0);
  probability = 0.1;
  expect(voiceChanges(voice, [LOUD, 25])).toEqual(["ends"]);
  probability = 0.99;
  expect(voiceChanges(voice, [LOUD, 10])).toEqual(["begins"]);
  expect(voiceChanges(voice, [LOUD, 100], [QUIET, 25])).toEqual(["ends"]);
});

it("knows for how long the user has spoken, from the first sound on", async () => {
  for (const loading of [undefined, Promise.resolve({ step: () => 0.9 })]) {
    const voice = new UserVoice(loading);
    await Promise.resolve();
    voiceChanges(voice, [QUIET, 8]);
    expect(voice.voiceMs).toBe(0);
    let blocks = 0;
    while (!voice.speaking) {
      voice.push(LOUD, 20);
      blocks += 1;
    }
    expect(Math.abs(voice.voiceMs - blocks * 20)).toBeLessThan(32);
    voiceChanges(voice, [LOUD, 50]);
    expect(Math.abs(voice.voiceMs - (blocks + 50) * 20)).toBeLessThan(32);
    voiceChanges(voice, [QUIET, 50]);
    expect(voice.voiceMs).toBe(0);
  }
});

it("changes over in a pause, so that speech does not start twice", async () => {
  let loaded: (network: { step(): number }) => void = () => undefined;
  const voice = new UserVoice(
    new Promise((resolve) => {
      loaded = resolve;
    }),
  );
  expect(voiceChanges(voice, [LOUD, 10])).toEqual(["begins"]);
  loaded({ step: () => 0.9 });
  await Promise.resolve();
  expect(voiceChanges(voice, [LOUD, 20], [QUIET, 50], [QUIET, 50])).toEqual(["ends"]);
});
