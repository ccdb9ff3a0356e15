import { type Loudness, LoudnessMeter, SILENCE } from "./loudness.ts";

export interface AutoGainLimits {
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
const STEP_S = 0.1;

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
    this.#auto.update(momentary - this.autoGainDb, peak - this.autoGainDb, STEP_S);
    this.#apply();
  }

  #apply(): void {
    const gain = this.#muted ? 0 : 10 ** (this.gainDb / 20);
    this.node.gain.setTargetAtTime(gain, this.node.context.currentTime, GLIDE_S / 3);
  }
}
