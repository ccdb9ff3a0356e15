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
