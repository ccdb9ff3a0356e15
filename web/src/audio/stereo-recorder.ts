import { concatSamples, INPUT_RATE, OUTPUT_RATE, pcm16FromSamples, type Samples } from "./pcm.ts";
import { SincResampler } from "./sinc-resampler.ts";

const PARTS_PER_BLOB = 100; // at least 10 s
const MAX_SKEW = OUTPUT_RATE / 2; // samples; a side that is further behind was paused

/**
 * Records both sides as a stereo WAV at 24 kHz: user left, model right. Takes captured and played
 * blocks including silence. Sample counts keep the sides in sync, and a paused side is filled with
 * silence.
 */
export class StereoRecorder {
  readonly #resampler = new SincResampler(INPUT_RATE, OUTPUT_RATE);
  /** All but the newest parts. The browser can keep blobs on disk. */
  readonly #blobs: Blob[] = [];
  #parts: Int16Array<ArrayBuffer>[] = [];
  readonly #onPart: (part: Int16Array<ArrayBuffer>) => void;
  #left: Samples = new Float32Array(0);
  #right: Samples = new Float32Array(0);
  #frames = 0;

  /** `onPart` receives the interleaved samples as they are recorded. */
  constructor(onPart: (part: Int16Array<ArrayBuffer>) => void = () => undefined) {
    this.#onPart = onPart;
  }

  get seconds(): number {
    return this.#frames / OUTPUT_RATE;
  }

  /** Captured audio at 16 kHz. */
  pushUser(block: Float32Array): void {
    this.#left = concatSamples([this.#left, this.#resampler.push(block)]);
    this.#write();
  }

  /** Played audio at 24 kHz. */
  pushModel(block: Float32Array): void {
    this.#right = concatSamples([this.#right, block]);
    this.#write();
  }

  blob(): Blob {
    return wavFile([...this.#blobs, new Blob(this.#parts)], STEREO_FORMAT);
  }

  #write(): void {
    const skew = this.#left.length - this.#right.length;
    if (skew > MAX_SKEW) this.#right = concatSamples([this.#right, new Float32Array(skew)]);
    if (-skew > MAX_SKEW) this.#left = concatSamples([this.#left, new Float32Array(-skew)]);
    const frames = Math.min(this.#left.length, this.#right.length);
    if (frames < OUTPUT_RATE / 10) return;
    const part = interleave(this.#left, this.#right, frames);
    this.#parts.push(part);
    if (this.#parts.length === PARTS_PER_BLOB) {
      this.#blobs.push(new Blob(this.#parts));
      this.#parts = [];
    }
    this.#onPart(part);
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

const HEADER_BYTES = 44;

interface WavFormat {
  channels: number;
  rate: number;
}

/** Of the files of `StereoRecorder`. */
export const STEREO_FORMAT: WavFormat = { channels: 2, rate: OUTPUT_RATE };

/** Milliseconds of a file that `wavFile` has created. */
export function wavLengthMs(file: Blob, { channels, rate }: WavFormat): number {
  return (1000 * Math.max(0, file.size - HEADER_BYTES)) / (2 * channels * rate);
}

/** Creates a 16-bit WAV file from parts with interleaved samples. */
export function wavFile(parts: readonly Blob[], format: WavFormat): Blob {
  const bytes = parts.reduce((total, part) => total + part.size, 0);
  return new Blob([wavHeader(bytes, format), ...parts], { type: "audio/wav" });
}

function wavHeader(dataBytes: number, { channels, rate }: WavFormat): ArrayBuffer {
  const view = new DataView(new ArrayBuffer(HEADER_BYTES));
  const frameBytes = 2 * channels;
  writeWord(view, 0, "RIFF");
  view.setUint32(4, HEADER_BYTES - 8 + dataBytes, true);
  writeWord(view, 8, "WAVE");
  writeWord(view, 12, "fmt ");
  view.setUint32(16, 16, true); // length of the rest of this part
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, channels, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * frameBytes, true);
  view.setUint16(32, frameBytes, true);
  view.setUint16(34, 16, true); // bits
  writeWord(view, 36, "data");
  view.setUint32(40, dataBytes, true);
  return view.buffer;
}

function writeWord(view: DataView, at: number, word: string): void {
  for (let i = 0; i < 4; i++) view.setUint8(at + i, word.charCodeAt(i));
}
