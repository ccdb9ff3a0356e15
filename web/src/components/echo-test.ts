import type { AudioEngine } from "../audio/audio-engine.ts";
import { concatSamples, INPUT_RATE, OUTPUT_RATE, type Samples } from "../audio/pcm.ts";

/** How much playback returns through the microphone after echo cancellation. */
export type Echo = "none" | "some" | "much";

const SWEEP_S = 0.8;
const FROM_HZ = 300;
const TO_HZ = 2800;
const REHEARSALS = 1; // lets the echo canceller adapt
const LISTEN_S = SWEEP_S + 0.7;
const FAINT = 10 ** (-55 / 20); // RMS, full scale 1: below anything that a model takes for speech

/** Plays a sound and records it through the same path as a call. Takes about three seconds. */
export async function testEcho(audio: AudioEngine): Promise<Echo> {
  const played = sweep(OUTPUT_RATE);
  for (let i = 0; i < REHEARSALS; i += 1) await hear(audio, played);
  return rateEcho(halved(sweep(INPUT_RATE)), halved(await hear(audio, played)));
}

/** A rising tone with faded ends, distinct from other sounds in a room. */
export function sweep(rate: number): Samples {
  const samples = new Float32Array(Math.round(SWEEP_S * rate));
  for (let i = 0; i < samples.length; i += 1) {
    const t = i / rate;
    const slope = (TO_HZ - FROM_HZ) / (2 * SWEEP_S);
    const edge = Math.min(1, 20 * t, 20 * (SWEEP_S - t));
    samples[i] = 0.4 * edge * Math.sin(2 * Math.PI * (FROM_HZ + slope * t) * t);
  }
  return samples;
}

/** Both must have the same sample rate. */
export function rateEcho(played: Float32Array, recorded: Float32Array): Echo {
  const { likeness, rms } = match(played, recorded);
  if (rms < FAINT || likeness < 0.12) return "none";
  return likeness > 0.45 ? "much" : "some";
}

/**
 * Finds `played` in `recorded`. `likeness` is 1 for an exact copy and about 0 if it is absent. `rms`
 * is the level at that position.
 */
export function match(
  played: Float32Array,
  recorded: Float32Array,
): { likeness: number; rms: number } {
  const length = played.length;
  const energyPlayed = product(played, played, 0);
  let energyRecorded = product(recorded.subarray(0, length), recorded, 0);
  let best = { likeness: 0, rms: 0 };
  for (let lag = 0; lag + length <= recorded.length; lag += 1) {
    const likeness =
      Math.abs(product(played, recorded, lag)) / Math.sqrt(energyPlayed * energyRecorded || 1);
    if (likeness > best.likeness)
      best = { likeness, rms: Math.sqrt(Math.max(0, energyRecorded) / length) };
    energyRecorded += (recorded[lag + length] ?? 0) ** 2 - (recorded[lag] ?? 0) ** 2;
  }
  return best;
}

function product(one: Float32Array, other: Float32Array, lag: number): number {
  let sum = 0;
  for (let i = 0; i < one.length; i += 1) sum += (one[i] ?? 0) * (other[lag + i] ?? 0);
  return sum;
}

/**
 * Halves the sample rate. The sweep stays below the new limit, and the search is four times as
 * fast.
 */
function halved(samples: Float32Array): Samples {
  const half = new Float32Array(samples.length >> 1);
  for (let i = 0; i < half.length; i += 1) {
    half[i] = ((samples[2 * i] ?? 0) + (samples[2 * i + 1] ?? 0)) / 2;
  }
  return half;
}

async function hear(audio: AudioEngine, sound: Samples): Promise<Samples> {
  const blocks: Samples[] = [];
  const leave = audio.on("userBlock", (block) => blocks.push(block));
  audio.player.push(sound);
  audio.player.endTurn();
  await new Promise((resolve) => setTimeout(resolve, LISTEN_S * 1000));
  leave();
  return concatSamples(blocks);
}
