const HEADER_BYTES = 44;

/** Peaks of the audio that has been read, 0 to 1 per channel. */
export interface Waveform {
  /** Number of values per second and channel. */
  readonly rate: number;
  readonly seconds: number;
  readonly channels: readonly Float32Array[];
}

/** A waveform from peaks of 0 to 255. */
export function waveformOf(channels: readonly (readonly number[])[], rate: number): Waveform {
  const scaled = channels.map((peaks) => Float32Array.from(peaks, (peak) => peak / 255));
  return { rate, seconds: (scaled[0]?.length ?? 0) / rate, channels: scaled };
}

/**
 * Reads a 16-bit WAV stream and computes `rate` peaks per second. Calls `onProgress` every
 * `everyMs` and at the end. Rejects if the file has another format. The audio itself is not kept.
 */
export async function readWaveform(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onProgress: (shape: Waveform) => void,
  { rate = 60, everyMs = 250 } = {},
): Promise<void> {
  const reader = stream.getReader();
  let rest = new Uint8Array(0);
  let shaper: Shaper | null = null;
  let reportedAt = performance.now();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    rest = concat(rest, value);
    if (shaper === null && rest.length >= HEADER_BYTES) {
      shaper = new Shaper(rest, rate);
      rest = rest.slice(HEADER_BYTES);
    }
    if (shaper) rest = shaper.push(rest);
    if (shaper && performance.now() - reportedAt > everyMs) {
      onProgress(shaper.shape());
      reportedAt = performance.now();
    }
  }
  if (shaper === null) throw new RangeError("the WAV file is truncated");
  onProgress(shaper.shape());
}

class Shaper {
  readonly #rate: number;
  readonly #perPeak: number;
  readonly #frameBytes: number;
  readonly #peaks: Float32Array[];
  #frames = 0;

  constructor(file: Uint8Array<ArrayBuffer>, rate: number) {
    const header = new DataView(file.buffer, file.byteOffset, HEADER_BYTES);
    const channels = header.getUint16(22, true);
    const isPcm16 = header.getUint16(20, true) === 1 && header.getUint16(34, true) === 16;
    if (word(header, 0) !== "RIFF" || word(header, 36) !== "data" || !isPcm16 || channels === 0) {
      throw new RangeError("not a 16-bit WAV file");
    }
    this.#perPeak = header.getUint32(24, true) / rate;
    this.#rate = rate;
    this.#frameBytes = 2 * channels;
    const count = Math.ceil(header.getUint32(40, true) / this.#frameBytes / this.#perPeak);
    this.#peaks = Array.from({ length: channels }, () => new Float32Array(count));
  }

  /** Reads whole frames and returns the remaining bytes. */
  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const frames = Math.floor(bytes.length / this.#frameBytes);
    const samples = new Int16Array(bytes.slice(0, frames * this.#frameBytes).buffer);
    const channels = this.#peaks.length;
    for (const [channel, peaks] of this.#peaks.entries()) {
      for (let i = 0; i < frames; i++) {
        const at = Math.floor((this.#frames + i) / this.#perPeak);
        const size = Math.abs(samples[i * channels + channel] as number) / 0x8000;
        if (size > (peaks[at] ?? 1)) peaks[at] = size;
      }
    }
    this.#frames += frames;
    return bytes.slice(frames * this.#frameBytes);
  }

  shape(): Waveform {
    const read = Math.ceil(this.#frames / this.#perPeak);
    const channels = this.#peaks.map((peaks) => peaks.subarray(0, read));
    return { rate: this.#rate, seconds: this.#frames / this.#perPeak / this.#rate, channels };
  }
}

function concat(a: Uint8Array<ArrayBuffer>, b: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (a.length === 0) return b;
  const whole = new Uint8Array(a.length + b.length);
  whole.set(a);
  whole.set(b, a.length);
  return whole;
}

function word(view: DataView, at: number): string {
  return String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(at + i)));
}

/** Returns `count` peaks from 0 to 1, scaled so that the highest is 1. */
export function peaksOf(samples: Float32Array, count: number): number[] {
  const span = samples.length / count;
  const peaks = Array.from({ length: count }, (_, i) =>
    loudest(samples.subarray(Math.floor(i * span), Math.ceil((i + 1) * span))),
  );
  const most = Math.max(...peaks);
  return most > 0 ? peaks.map((peak) => peak / most) : peaks;
}

function loudest(samples: Float32Array): number {
  let most = 0;
  for (const sample of samples) most = Math.max(most, Math.abs(sample));
  return most;
}
