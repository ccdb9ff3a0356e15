const HEADER_BYTES = 44;

/** How loud a sound is along its time, as far as it has been read: 0 to 1, by channel. */
export interface Waveform {
  /** Values per second and channel. */
  readonly rate: number;
  readonly seconds: number;
  readonly channels: readonly Float32Array[];
}

/**
 * Reads a 16-bit WAV as it comes and keeps `rate` peaks per second of it; tells what there is after
 * every `everyMs`, and at the end. Rejects when it is no such file. The sound itself is not kept.
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
  if (shaper === null) throw new RangeError("the sound ends within its header");
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

  /** Takes whole frames; what is left of the last one comes back. */
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
