interface Biquad {
  b: readonly [number, number, number];
  a: readonly [number, number]; // a0 is 1
}

/**
 * K-weighting of ITU-R BS.1770-4 at any sample rate: a high shelf, then a high pass. The standard
 * gives coefficients for 48 kHz only. These are derived from its analogue prototypes with the
 * bilinear transform and match them at 48 kHz.
 */
class KWeighting {
  readonly #stages: Section[];

  constructor(sampleRate: number) {
    this.#stages = [highShelf(sampleRate), highPass(sampleRate)].map(
      (biquad) => new Section(biquad),
    );
  }

  next(sample: number): number {
    let value = sample;
    for (const stage of this.#stages) value = stage.next(value);
    return value;
  }
}

/** Transposed direct form II. */
class Section {
  readonly #biquad: Biquad;
  #z1 = 0;
  #z2 = 0;

  constructor(biquad: Biquad) {
    this.#biquad = biquad;
  }

  next(x: number): number {
    const { a, b } = this.#biquad;
    const y = b[0] * x + this.#z1;
    this.#z1 = b[1] * x - a[0] * y + this.#z2;
    this.#z2 = b[2] * x - a[1] * y;
    return y;
  }
}

export function highShelf(sampleRate: number): Biquad {
  const k = Math.tan((Math.PI * 1681.974450955533) / sampleRate);
  const q = 0.7071752369554196;
  const high = 10 ** (3.999843853973347 / 20);
  const band = high ** 0.4996667741545416;
  const a0 = 1 + k / q + k * k;
  return {
    b: [
      (high + (band * k) / q + k * k) / a0,
      (2 * (k * k - high)) / a0,
      (high - (band * k) / q + k * k) / a0,
    ],
    a: [(2 * (k * k - 1)) / a0, (1 - k / q + k * k) / a0],
  };
}

export function highPass(sampleRate: number): Biquad {
  const k = Math.tan((Math.PI * 38.13547087602444) / sampleRate);
  const q = 0.5003270373238773;
  const a0 = 1 + k / q + k * k;
  return { b: [1, -2, 1], a: [(2 * (k * k - 1)) / a0, (1 - k / q + k * k) / a0] };
}

/** Loudness by ITU-R BS.1770-4. Values are in LUFS, -Infinity for silence. */

const STEP_S = 0.1; // blocks of 400 ms overlap by 75 %
const MOMENTARY_STEPS = 4;
const SHORT_TERM_STEPS = 30;
const ABSOLUTE_GATE = -70;
const RELATIVE_GATE = 0.1; // of the mean power: -10 LU
const BINS_PER_LU = 10;
const BINS = 80 * BINS_PER_LU; // from the absolute gate to 10 LUFS

export interface Loudness {
  /** Last 400 ms. */
  momentary: number;
  /** Last 3 s. */
  shortTerm: number;
  /** Integrated since the start, gated. */
  integrated: number;
  /** Highest sample of the last 100 ms, dBFS. */
  peak: number;
}

export const SILENCE: Loudness = {
  momentary: -Infinity,
  shortTerm: -Infinity,
  integrated: -Infinity,
  peak: -Infinity,
};

function lufsFromPower(power: number): number {
  return power > 0 ? -0.691 + 10 * Math.log10(power) : -Infinity;
}

/** Loudness of a stream with one channel, or with two channels of equal weight. */
export class LoudnessMeter {
  readonly #stepSamples: number;
  readonly #filters: KWeighting[];
  readonly #steps: number[] = []; // mean power of the last 30 steps
  readonly #blocks = new BlockHistogram();
  #energy = 0;
  #peak = 0;
  #filled = 0;
  #stepPeak = 0;

  constructor(sampleRate: number, channels = 1) {
    this.#stepSamples = Math.round(sampleRate * STEP_S);
    this.#filters = Array.from({ length: channels }, () => new KWeighting(sampleRate));
  }

  /** All channels must have equal length. Returns the number of completed 100 ms steps. */
  push(...channels: Float32Array[]): number {
    const length = channels[0]?.length ?? 0;
    let steps = 0;
    for (let at = 0; at < length; ) {
      const end = Math.min(length, at + this.#stepSamples - this.#filled);
      for (const [index, filter] of this.#filters.entries()) {
        this.#measure(filter, (channels[index] as Float32Array).subarray(at, end));
      }
      this.#filled += end - at;
      at = end;
      if (this.#filled === this.#stepSamples) steps += this.#complete();
    }
    return steps;
  }

  get reading(): Loudness {
    return {
      momentary: lufsFromPower(this.#lastSteps(MOMENTARY_STEPS)),
      shortTerm: lufsFromPower(this.#lastSteps(SHORT_TERM_STEPS)),
      integrated: lufsFromPower(this.#blocks.gatedMean),
      peak: 20 * Math.log10(this.#stepPeak),
    };
  }

  #measure(filter: KWeighting, samples: Float32Array): void {
    for (const sample of samples) {
      const weighted = filter.next(sample);
      this.#energy += weighted * weighted;
      this.#peak = Math.max(this.#peak, Math.abs(sample));
    }
  }

  #complete(): 1 {
    this.#steps.push(this.#energy / this.#stepSamples);
    if (this.#steps.length > SHORT_TERM_STEPS) this.#steps.shift();
    if (this.#steps.length >= MOMENTARY_STEPS) this.#keepBlock(this.#lastSteps(MOMENTARY_STEPS));
    this.#stepPeak = this.#peak;
    this.#energy = this.#peak = this.#filled = 0;
    return 1;
  }

  #keepBlock(power: number): void {
    const aboveGate = lufsFromPower(power) - ABSOLUTE_GATE;
    if (aboveGate > 0) this.#blocks.add(power, aboveGate);
  }

  /** A window that is not full counts as preceded by silence. */
  #lastSteps(count: number): number {
    return this.#steps.slice(-count).reduce((sum, power) => sum + power, 0) / count;
  }
}

/** Power of all blocks above the absolute gate, by loudness. Its size does not depend on their number. */
class BlockHistogram {
  readonly #counts = new Float64Array(BINS);
  readonly #powers = new Float64Array(BINS); // sums

  /** `aboveGate`: loudness above the absolute gate, LU. */
  add(power: number, aboveGate: number): void {
    const bin = Math.min(BINS - 1, Math.floor(aboveGate * BINS_PER_LU));
    this.#counts[bin] = (this.#counts[bin] as number) + 1;
    this.#powers[bin] = (this.#powers[bin] as number) + power;
  }

  /** Mean power of the blocks that also pass the relative gate, which each bin passes as a whole. */
  get gatedMean(): number {
    return this.#meanAbove(this.#meanAbove(0) * RELATIVE_GATE);
  }

  #meanAbove(gate: number): number {
    let [count, sum] = [0, 0];
    for (const [bin, power] of this.#powers.entries()) {
      const blocks = this.#counts[bin] as number;
      if (power <= gate * blocks) continue;
      count += blocks;
      sum += power;
    }
    return count === 0 ? 0 : sum / count;
  }
}

interface AutoGainLimits {
  /** Target loudness of speech, LUFS. */
  targetLufs: number;
  minDb: number;
  maxDb: number;
  /** Input below this loudness is background and does not change the gain, LUFS. */
  gateLufs: number;
  /** Maximum change of the gain, dB per second. */
  riseDbPerS: number;
  fallDbPerS: number;
  /** Limit for peaks, dBFS. */
  ceilingDb: number;
}

export const AUTO_GAIN: AutoGainLimits = {
  targetLufs: -23,
  minDb: -12,
  maxDb: 18,
  gateLufs: -50,
  riseDbPerS: 3,
  fallDbPerS: 12,
  ceilingDb: -1,
};

/** Moves speech slowly to a target loudness, within limits. Silence does not change the gain. */
export class AutoGain {
  readonly #limits: AutoGainLimits;
  gainDb = 0;

  constructor(limits: AutoGainLimits = AUTO_GAIN) {
    this.#limits = limits;
  }

  /** `momentary` (LUFS) and `peak` (dBFS) are measured before the gain, over the last `seconds`. */
  update(momentary: number, peak: number, seconds: number): number {
    const limits = this.#limits;
    if (momentary < limits.gateLufs) return this.gainDb;
    const wanted = Math.min(limits.targetLufs - momentary, limits.ceilingDb - peak);
    const step = clamp(
      clamp(wanted, limits.minDb, limits.maxDb) - this.gainDb,
      -limits.fallDbPerS * seconds,
      limits.riseDbPerS * seconds,
    );
    this.gainDb += step;
    return this.gainDb;
  }
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

const GLIDE_S = 0.02;
const GAIN_STEP_S = 0.1;

/** One channel of the mixer: manual and automatic gain, mute, and a level meter after the gain. */
export class MixerChannel {
  readonly node: GainNode;
  readonly #meter: LoudnessMeter;
  readonly #auto = new AutoGain();
  #loudness = SILENCE;
  #faderDb = 0;
  #muted = false;
  autoGain = false;

  /** `rate`: sample rate of the blocks passed to `observe`. */
  constructor(context: AudioContext, rate: number) {
    this.node = context.createGain();
    this.#meter = new LoudnessMeter(rate);
  }

  /** Measured after the gain, over the last 100 ms. */
  get loudness(): Loudness {
    return this.#loudness;
  }

  /** Manual gain, dB. The automatic gain is added. */
  get faderDb(): number {
    return this.#faderDb;
  }

  set faderDb(db: number) {
    this.#faderDb = db;
    this.#apply();
  }

  get muted(): boolean {
    return this.#muted;
  }

  set muted(muted: boolean) {
    this.#muted = muted;
    this.#apply();
  }

  get gainDb(): number {
    return this.#faderDb + this.autoGainDb;
  }

  get autoGainDb(): number {
    return this.autoGain ? this.#auto.gainDb : 0;
  }

  /** Mono samples at the output of `node`. */
  observe(block: Float32Array): void {
    if (this.#meter.push(block) === 0) return;
    this.#loudness = this.#meter.reading;
    if (this.autoGain && !this.#muted) this.#adjust();
  }

  #adjust(): void {
    const { momentary, peak } = this.#loudness;
    this.#auto.update(momentary - this.autoGainDb, peak - this.autoGainDb, GAIN_STEP_S);
    this.#apply();
  }

  #apply(): void {
    const gain = this.#muted ? 0 : 10 ** (this.gainDb / 20);
    this.node.gain.setTargetAtTime(gain, this.node.context.currentTime, GLIDE_S / 3);
  }
}
