import type { Samples } from "./pcm.ts";

/** A sine with phase 0 and peak `amplitude`. */
export function sine(hz: number, rate: number, seconds: number, amplitude = 1): Samples {
  const samples = new Float32Array(Math.round(rate * seconds));
  for (let n = 0; n < samples.length; n++) {
    samples[n] = amplitude * Math.sin((2 * Math.PI * hz * n) / rate);
  }
  return samples;
}

/** RMS level in dB. */
export function levelDb(samples: Float32Array): number {
  return 10 * Math.log10(samples.reduce((sum, value) => sum + value * value, 0) / samples.length);
}

export function fromDb(db: number): number {
  return 10 ** (db / 20);
}

/** Repeatable white noise with this RMS level. */
export function noise(length: number, rms: number): Samples {
  const samples = new Float32Array(length);
  let seed = 1;
  for (let n = 0; n < length; n++) {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    samples[n] = rms * Math.sqrt(3) * (seed / 1_073_741_824 - 1);
  }
  return samples;
}
