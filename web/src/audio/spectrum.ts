/** Magnitudes of the Fourier transform of `size` real samples after a Hann window. Pure. */
export class Spectrum {
  /** Number of magnitudes: from 0 Hz to half the sample rate. */
  readonly bins: number;
  readonly #size: number;
  readonly #window: Float64Array;
  readonly #cos: Float64Array;
  readonly #sin: Float64Array;
  readonly #order: Uint16Array;
  readonly #real: Float64Array;
  readonly #imaginary: Float64Array;

  /** `size`: a power of 2. */
  constructor(size: number) {
    const turn = (2 * Math.PI) / size;
    this.#size = size;
    this.bins = size / 2 + 1;
    this.#window = Float64Array.from({ length: size }, (_, n) => 0.5 - 0.5 * Math.cos(turn * n));
    this.#cos = Float64Array.from({ length: size / 2 }, (_, n) => Math.cos(turn * n));
    this.#sin = Float64Array.from({ length: size / 2 }, (_, n) => -Math.sin(turn * n));
    this.#order = bitReversed(size);
    this.#real = new Float64Array(size);
    this.#imaginary = new Float64Array(size);
  }

  /** Writes the magnitudes of `samples` from index `at` on into `into`, from index `to` on. */
  write(samples: Float32Array, at: number, into: Float32Array, to: number): void {
    for (let n = 0; n < this.#size; n++) {
      this.#real[this.#order[n] as number] =
        (samples[at + n] as number) * (this.#window[n] as number);
    }
    this.#imaginary.fill(0);
    for (let half = 1; half < this.#size; half *= 2) this.#combine(half);
    for (let bin = 0; bin < this.bins; bin++) {
      into[to + bin] = Math.hypot(this.#real[bin] as number, this.#imaginary[bin] as number);
    }
  }

  /** Combines transforms of `half` values in pairs, in place. */
  #combine(half: number): void {
    const re = this.#real;
    const im = this.#imaginary;
    const step = this.#size / 2 / half;
    for (let start = 0; start < this.#size; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const cos = this.#cos[k * step] as number;
        const sin = this.#sin[k * step] as number;
        const low = start + k;
        const high = low + half;
        const a = (re[high] as number) * cos - (im[high] as number) * sin;
        const b = (re[high] as number) * sin + (im[high] as number) * cos;
        re[high] = (re[low] as number) - a;
        im[high] = (im[low] as number) - b;
        re[low] = (re[low] as number) + a;
        im[low] = (im[low] as number) + b;
      }
    }
  }
}

function bitReversed(size: number): Uint16Array {
  const order = new Uint16Array(size);
  for (let n = 1; n < size; n++) order[n] = ((order[n >> 1] as number) + (n & 1) * size) >> 1;
  return order;
}
