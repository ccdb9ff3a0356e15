import type { Samples } from "./pcm.ts";

const STOPBAND_DB = 96;
const PASSBAND = 0.91; // relative to the lower Nyquist frequency, where the transition band ends

/**
 * Streaming polyphase resampler for a rational ratio. Kaiser-windowed sinc, flat to 0.91 of the
 * lower Nyquist frequency and 90 dB down at it. It adds no time shift: output n is at input time
 * n·from/to, and is available `lookahead` input samples later.
 */
export class SincResampler {
  readonly lookahead: number;
  readonly #up: number;
  readonly #down: number;
  readonly #phases: Float32Array[];
  #input: Float32Array;
  #position = 0; // start of the next output's window in #input
  #phase = 0;

  constructor(fromHz: number, toHz: number) {
    const divisor = greatestCommonDivisor(fromHz, toHz);
    this.#up = toHz / divisor;
    this.#down = fromHz / divisor;
    this.lookahead = halfLength(fromHz, toHz);
    this.#phases = designPhases(this.#up, this.lookahead, cutoff(fromHz, toHz));
    this.#input = new Float32Array(this.lookahead - 1);
  }

  /** Returns all output that the input so far allows. */
  push(block: Float32Array): Samples {
    this.#append(block);
    const taps = 2 * this.lookahead;
    const output = new Float32Array(this.#available(taps));
    for (let n = 0; n < output.length; n++) {
      output[n] = this.#dot(taps);
      this.#advance();
    }
    this.#forget();
    return output;
  }

  /** Returns the tail, as if silence followed. Do not push afterwards. */
  flush(): Samples {
    return this.push(new Float32Array(this.lookahead));
  }

  #append(block: Float32Array): void {
    const joined = new Float32Array(this.#input.length + block.length);
    joined.set(this.#input);
    joined.set(block, this.#input.length);
    this.#input = joined;
  }

  #available(taps: number): number {
    const windows = this.#input.length - taps - this.#position + 1;
    return Math.max(0, Math.ceil((windows * this.#up - this.#phase) / this.#down));
  }

  #dot(taps: number): number {
    const phase = this.#phases[this.#phase] as Float32Array;
    const input = this.#input;
    let sum = 0;
    for (let k = 0; k < taps; k++) {
      sum += (phase[k] as number) * (input[this.#position + k] as number);
    }
    return sum;
  }

  #advance(): void {
    this.#phase += this.#down;
    this.#position += Math.floor(this.#phase / this.#up);
    this.#phase %= this.#up;
  }

  #forget(): void {
    const gone = Math.min(this.#position, this.#input.length);
    this.#input = this.#input.slice(gone);
    this.#position -= gone;
  }
}

/** Resamples all of `samples`. Returns `ceil(length · to / from)` samples. */
export function resample(samples: Float32Array, fromHz: number, toHz: number): Samples {
  if (fromHz === toHz) return new Float32Array(samples);
  const resampler = new SincResampler(fromHz, toHz);
  const head = resampler.push(samples);
  const tail = resampler.flush();
  const whole = new Float32Array(Math.ceil((samples.length * toHz) / fromHz));
  whole.set(head.subarray(0, whole.length));
  whole.set(tail.subarray(0, whole.length - head.length), head.length);
  return whole;
}

/** Cutoff of the kernel in cycles per input sample, in the middle of the transition band. */
function cutoff(fromHz: number, toHz: number): number {
  return ((1 + PASSBAND) / 4) * Math.min(1, toHz / fromHz);
}

/** Half of Kaiser's length estimate: input samples on each side. */
function halfLength(fromHz: number, toHz: number): number {
  const transition = Math.PI * (1 - PASSBAND) * Math.min(1, toHz / fromHz); // radians per sample
  return Math.ceil((STOPBAND_DB - 8) / (2.285 * transition) / 2);
}

/**
 * `phases[p][k]`: weight of input k, counted from `half - 1` samples before the output's input
 * sample.
 */
function designPhases(up: number, half: number, cutoffCycles: number): Float32Array[] {
  return Array.from({ length: up }, (_, p) => {
    const weights = Float64Array.from({ length: 2 * half }, (_, k) =>
      kernel(half - 1 - k + p / up, half, cutoffCycles),
    );
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return Float32Array.from(weights, (weight) => weight / sum);
  });
}

function kernel(distance: number, half: number, cutoffCycles: number): number {
  const x = 2 * Math.PI * cutoffCycles * distance;
  const sinc = x === 0 ? 1 : Math.sin(x) / x;
  const beta = 0.1102 * (STOPBAND_DB - 8.7);
  const edge = Math.max(0, 1 - (distance / half) ** 2);
  return (sinc * bessel0(beta * Math.sqrt(edge))) / bessel0(beta);
}

/** Modified Bessel function of the first kind, order 0, as a series. */
function bessel0(x: number): number {
  let term = 1;
  let sum = 1;
  for (let k = 1; term > sum * 1e-16; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
