import weightsUrl from "./silero-v6.f16?url";
import { STEP_SAMPLES } from "./voice-activity.ts";

/** Magnitudes of the Fourier transform of `size` real samples after a Hann window. Pure. */
class Spectrum {
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

const CONTEXT_SAMPLES = 64;
const WINDOW = 256;
const HOP = 128;
const FRAMES = 4; // spectra per step
const CELLS = 128;
/** Channels in and out, and stride, of each convolution over time. All have a width of 3. */
const CONVOLUTIONS = [
  [129, 128, 1],
  [128, 64, 2],
  [64, 64, 2],
  [64, 128, 1],
] as const;

interface Layer {
  /** One row per output. */
  weights: Float32Array;
  biases: Float32Array;
}

/**
 * Silero VAD, version 6, at 16 kHz: spectra, four convolutions, an LSTM. It has the state of one
 * stream of audio. `tools/silero_weights.py` writes the weights.
 */
export class SileroNetwork {
  readonly #convolutions: Layer[];
  readonly #gates: Layer;
  readonly #output: Layer;
  readonly #spectrum = new Spectrum(WINDOW);
  /** The last samples of the previous step, the samples of the step, and their reflection. */
  readonly #samples = new Float32Array(CONTEXT_SAMPLES + STEP_SAMPLES + CONTEXT_SAMPLES);
  /** Input of the LSTM: the output of the convolutions, then its own last output. */
  readonly #input = new Float32Array(2 * CELLS);
  readonly #cells = new Float32Array(CELLS);

  /** `weights`: float16. Throws RangeError if their number is wrong. */
  constructor(weights: Uint16Array) {
    const values = Float32Array.from(weights, fromHalf);
    let at = 0;
    const take = (count: number): Float32Array => {
      at += count;
      return values.subarray(at - count, at);
    };
    const layer = (outputs: number, inputs: number): Layer => ({
      weights: take(outputs * inputs),
      biases: take(outputs),
    });
    this.#convolutions = CONVOLUTIONS.map(([inputs, outputs]) => layer(outputs, 3 * inputs));
    this.#gates = layer(4 * CELLS, 2 * CELLS);
    this.#output = layer(1, CELLS);
    if (at !== values.length) throw new RangeError(`${values.length} weights instead of ${at}`);
  }

  /** The probability, in [0, 1], that the next `STEP_SAMPLES` samples are speech. */
  step(samples: Float32Array): number {
    let frames = this.#spectra(samples);
    for (const [index, [inputs, , stride]] of CONVOLUTIONS.entries()) {
      frames = convolve(this.#convolutions[index] as Layer, frames, inputs, stride);
    }
    this.#input.set(frames.subarray(CELLS, 2 * CELLS));
    this.#remember();
    const [sum] = apply(this.#output, this.#input.subarray(CELLS).map(relu));
    return sigmoid(sum as number);
  }

  /** Magnitudes, with a frame of zeros before and after them. */
  #spectra(samples: Float32Array): Float32Array {
    const line = this.#samples;
    const end = CONTEXT_SAMPLES + STEP_SAMPLES;
    line.copyWithin(0, STEP_SAMPLES, end);
    line.set(samples, CONTEXT_SAMPLES);
    for (let n = 0; n < CONTEXT_SAMPLES; n++) line[end + n] = line[end - 2 - n] as number;
    const { bins } = this.#spectrum;
    const frames = new Float32Array((FRAMES + 2) * bins);
    for (let n = 0; n < FRAMES; n++) {
      this.#spectrum.write(line, n * HOP, frames, (n + 1) * bins);
    }
    return frames;
  }

  /** A step of the LSTM. The gates are in PyTorch's order: input, forget, cell, output. */
  #remember(): void {
    const gates = apply(this.#gates, this.#input);
    for (let n = 0; n < CELLS; n++) {
      const added = sigmoid(gates[n] as number) * Math.tanh(gates[2 * CELLS + n] as number);
      const kept = sigmoid(gates[CELLS + n] as number) * (this.#cells[n] as number);
      this.#cells[n] = kept + added;
      this.#input[CELLS + n] = sigmoid(gates[3 * CELLS + n] as number) * Math.tanh(kept + added);
    }
  }
}

/** Rejects if the weights cannot be loaded. */
export async function load(): Promise<SileroNetwork> {
  const response = await fetch(weightsUrl);
  if (!response.ok) throw new Error(`${weightsUrl}: status ${response.status}`);
  return new SileroNetwork(new Uint16Array(await response.arrayBuffer()));
}

/** Frames of `inputs` values in and out, both with a frame of zeros before and after them. */
function convolve(
  layer: Layer,
  frames: Float32Array,
  inputs: number,
  stride: number,
): Float32Array {
  const outputs = layer.biases.length;
  const count = Math.floor((frames.length / inputs - 3) / stride) + 1;
  const convolved = new Float32Array((count + 2) * outputs);
  for (let n = 0; n < count; n++) {
    const at = n * stride * inputs;
    convolved.set(apply(layer, frames.subarray(at, at + 3 * inputs)).map(relu), (n + 1) * outputs);
  }
  return convolved;
}

/** Weights times `input` plus biases. Four sums at a time, because an addition waits for the last one. */
function apply({ weights, biases }: Layer, input: Float32Array): Float32Array {
  const result = new Float32Array(biases.length);
  const size = input.length;
  const whole = size - (size % 4);
  for (let row = 0; row < result.length; row++) {
    const at = row * size;
    let a = biases[row] as number;
    let b = 0;
    let c = 0;
    let d = 0;
    for (let n = 0; n < whole; n += 4) {
      a += (weights[at + n] as number) * (input[n] as number);
      b += (weights[at + n + 1] as number) * (input[n + 1] as number);
      c += (weights[at + n + 2] as number) * (input[n + 2] as number);
      d += (weights[at + n + 3] as number) * (input[n + 3] as number);
    }
    for (let n = whole; n < size; n++) a += (weights[at + n] as number) * (input[n] as number);
    result[row] = a + b + c + d;
  }
  return result;
}

function relu(value: number): number {
  return Math.max(0, value);
}

function sigmoid(value: number): number {
  return 1 / (1 + Math.exp(-value));
}

/** The value of a float16; there are no infinities. */
function fromHalf(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  const size = exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14;
  return bits & 0x8000 ? -size : size;
}
