export interface VoiceActivityLimits {
  /** Level of speech above the background, dB. */
  aboveFloorDb: number;
  /** Minimum level of speech, dBFS. */
  minDb: number;
  /** Time above the level until speech starts, ms. */
  onsetMs: number;
  /** Time below the level until speech ends, ms. */
  hangoverMs: number;
}

export const VOICE_ACTIVITY_DEFAULTS: VoiceActivityLimits = {
  aboveFloorDb: 12,
  minDb: -45,
  onsetMs: 120,
  hangoverMs: 500,
};

const FLOOR_START_DB = -60;
const FLOOR_RISE_DB_PER_S = 3; // steady noise such as a fan becomes background after some seconds

/**
 * Voice activity detection by level over an adaptive noise floor. Coarse but immediate, so that
 * barge-in does not wait for the server. Pure.
 */
export class VoiceActivityDetector {
  readonly #limits: VoiceActivityLimits;
  #floorDb = FLOOR_START_DB;
  #loudMs = 0;
  #quietMs = Infinity;
  #speaking = false;

  constructor(limits: VoiceActivityLimits = VOICE_ACTIVITY_DEFAULTS) {
    this.#limits = limits;
  }

  get speaking(): boolean {
    return this.#speaking;
  }

  /** Time since the last loud block. Infinity before the first. */
  get quietMs(): number {
    return this.#quietMs;
  }

  /** Returns true if speech starts, false if it ends, undefined if nothing changes. */
  push(block: Float32Array, blockMs: number): boolean | undefined {
    const db = levelDb(block);
    const { aboveFloorDb, minDb } = this.#limits;
    const loud = db > Math.max(minDb, this.#floorDb + aboveFloorDb);
    this.#floorDb = Math.min(db, this.#floorDb + (FLOOR_RISE_DB_PER_S * blockMs) / 1000);
    this.#floorDb = Math.max(this.#floorDb, FLOOR_START_DB);
    this.#loudMs = loud ? this.#loudMs + blockMs : Math.max(0, this.#loudMs - 2 * blockMs);
    this.#quietMs = loud ? 0 : this.#quietMs + blockMs;
    return this.#decide();
  }

  #decide(): boolean | undefined {
    const { onsetMs, hangoverMs } = this.#limits;
    const speaking = this.#speaking ? this.#quietMs < hangoverMs : this.#loudMs >= onsetMs;
    if (speaking === this.#speaking) return undefined;
    this.#speaking = speaking;
    this.#loudMs = 0;
    return speaking;
  }
}

function levelDb(block: Float32Array): number {
  const power = block.reduce((sum, value) => sum + value * value, 0) / block.length;
  return 10 * Math.log10(power + 1e-12);
}
