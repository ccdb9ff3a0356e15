export interface DelayLimits {
  startMs: number;
  minMs: number;
  maxMs: number;
  /** Minimum lead time that the latest chunk of a turn should have. */
  marginMs: number;
}

export const PLAYBACK_DELAY: DelayLimits = { startMs: 200, minMs: 80, maxMs: 800, marginMs: 60 };

/**
 * Limits for a delay that starts at `startMs`. The minimum becomes `startMs` if that is smaller.
 */
export function delayLimitsFrom(startMs: number = PLAYBACK_DELAY.startMs): DelayLimits {
  return { ...PLAYBACK_DELAY, startMs, minMs: Math.min(PLAYBACK_DELAY.minMs, startMs) };
}

const EASE = 0.25; // share of the excess that each turn removes

/**
 * Adaptive delay of the first chunk of a turn. It grows at once after a late chunk, and shrinks
 * slowly after turns in which every chunk was early.
 */
export class PlaybackDelay {
  readonly #limits: DelayLimits;
  #ms: number;
  #worstMs = Infinity;

  constructor(limits: DelayLimits = PLAYBACK_DELAY) {
    this.#limits = limits;
    this.#ms = limits.startMs;
  }

  get ms(): number {
    return this.#ms;
  }

  /**
   * A chunk of the current turn arrived `aheadMs` before its playback time. Negative means late.
   * Chunks later than any delay could cover followed an outage and are ignored.
   */
  observe(aheadMs: number): void {
    if (aheadMs < -this.#limits.maxMs) return;
    this.#worstMs = Math.min(this.#worstMs, aheadMs);
    if (aheadMs < 0) this.#set(this.#ms - aheadMs);
  }

  /** The turn ended. A turn of a single chunk has no effect. */
  settle(): void {
    const spare = this.#worstMs - this.#limits.marginMs;
    if (this.#worstMs !== Infinity && spare > 0) this.#set(this.#ms - spare * EASE);
    else if (this.#worstMs >= 0 && spare < 0) this.#set(this.#ms - spare);
    this.#worstMs = Infinity;
  }

  #set(ms: number): void {
    this.#ms = Math.min(this.#limits.maxMs, Math.max(this.#limits.minMs, ms));
  }
}
