export interface DelayLimits {
  startMs: number;
  minMs: number;
  maxMs: number;
  /** What the worst chunk of a turn should still have had in hand. */
  marginMs: number;
}

export const PLAYBACK_DELAY: DelayLimits = { startMs: 200, minMs: 80, maxMs: 800, marginMs: 60 };

/** A delay that begins at `startMs` and may become as short as that, where it is shorter than the shortest. */
export function delayLimitsFrom(startMs: number = PLAYBACK_DELAY.startMs): DelayLimits {
  return { ...PLAYBACK_DELAY, startMs, minMs: Math.min(PLAYBACK_DELAY.minMs, startMs) };
}

const EASE = 0.25; // of what was too much is given back after each turn

/**
 * How long the first chunk of a turn waits before it sounds: at once longer after a chunk that came too
 * late, slowly shorter after turns in which every chunk came early enough.
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
   * A chunk of the running turn came `aheadMs` before it was needed; negative: too late. One that was
   * later than any delay could cover came after an outage and says nothing.
   */
  observe(aheadMs: number): void {
    if (aheadMs < -this.#limits.maxMs) return;
    this.#worstMs = Math.min(this.#worstMs, aheadMs);
    if (aheadMs < 0) this.#set(this.#ms - aheadMs);
  }

  /** The turn is over. One whose every chunk came in one piece says nothing. */
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
