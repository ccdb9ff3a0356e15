import { concatSamples, INPUT_RATE, OUTPUT_RATE, pcm16FromSamples, type Samples } from "./pcm.ts";
import { SincResampler } from "./sinc-resampler.ts";
import { wavBlob } from "./wav.ts";

const MAX_SKEW = OUTPUT_RATE / 2; // samples; a side that falls behind by more has stood still

/**
 * Both sides of a conversation as a stereo WAV at 24 kHz: the user left, the model right. Fed with what
 * was captured and what was played, silence included; the sides keep their common time by their
 * sample counts, and a side that stood still is filled with silence.
 */
export class StereoRecorder {
  readonly #resampler = new SincResampler(INPUT_RATE, OUTPUT_RATE);
  readonly #parts: Int16Array<ArrayBuffer>[] = [];
  #left: Samples = new Float32Array(0);
  #right: Samples = new Float32Array(0);
  #frames = 0;

  get seconds(): number {
    return this.#frames / OUTPUT_RATE;
  }

  /** Captured, at 16 kHz. */
  pushUser(block: Float32Array): void {
    this.#left = concatSamples([this.#left, this.#resampler.push(block)]);
    this.#write();
  }

  /** Played, at 24 kHz. */
  pushModel(block: Float32Array): void {
    this.#right = concatSamples([this.#right, block]);
    this.#write();
  }

  blob(): Blob {
    return wavBlob(this.#parts, { channels: 2, rate: OUTPUT_RATE });
  }

  #write(): void {
    const skew = this.#left.length - this.#right.length;
    if (skew > MAX_SKEW) this.#right = concatSamples([this.#right, new Float32Array(skew)]);
    if (-skew > MAX_SKEW) this.#left = concatSamples([this.#left, new Float32Array(-skew)]);
    const frames = Math.min(this.#left.length, this.#right.length);
    if (frames < OUTPUT_RATE / 10) return;
    this.#parts.push(interleave(this.#left, this.#right, frames));
    this.#left = this.#left.slice(frames);
    this.#right = this.#right.slice(frames);
    this.#frames += frames;
  }
}

function interleave(left: Samples, right: Samples, frames: number): Int16Array<ArrayBuffer> {
  const both = new Float32Array(2 * frames);
  for (let n = 0; n < frames; n++) {
    both[2 * n] = left[n] as number;
    both[2 * n + 1] = right[n] as number;
  }
  return pcm16FromSamples(both);
}
