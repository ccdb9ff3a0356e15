import { OUTPUT_RATE } from "./pcm.ts";

/** Playback statistics, in milliseconds of audio. */
export interface PlaybackStats {
  playing: boolean;
  /** Scheduled but not yet played. */
  aheadMs: number;
  /** Delay before the next turn. */
  delayMs: number;
  /** Played since the start. */
  playedMs: number;
  /** Played in the current or the last turn. */
  turnPlayedMs: number;
  /** Number of gaps within turns because a chunk was late, and their total length. */
  gaps: number;
  gapMs: number;
  /** Delay of the current turn that was added by gaps. */
  driftMs: number;
}

/** The position of a chunk in the schedule. */
export interface Placement {
  /** On the clock of `now`, seconds. */
  startS: number;
  /** Whether it is the first chunk of its turn. */
  first: boolean;
  /** Unwanted silence before it, ms. */
  gapMs: number;
}

interface Segment {
  startS: number;
  endS: number;
}

/**
 * Schedules chunks so that a turn plays without seams. Pure: every method takes the time in
 * seconds, from one monotonic clock.
 */
export class PlaybackSchedule {
  readonly #delay: PlaybackDelay;
  #segments: Segment[] = []; // not completely played
  #endS = -Infinity;
  #inTurn = false;
  #heardS = 0;
  #turnHeardS = 0;
  #gaps = 0;
  #gapS = 0;
  #driftS = 0;

  constructor(limits: DelayLimits = PLAYBACK_DELAY) {
    this.#delay = new PlaybackDelay(limits);
  }

  push(durationS: number, nowS: number): Placement {
    this.#settle(nowS);
    const placement = this.#inTurn ? this.#continue(nowS) : this.#begin(nowS);
    this.#endS = placement.startS + durationS;
    this.#segments.push({ startS: placement.startS, endS: this.#endS });
    return placement;
  }

  /** Ends the turn. Scheduled chunks still play. */
  endTurn(): void {
    if (this.#inTurn) this.#delay.settle();
    this.#inTurn = false;
  }

  /** Drops the rest of the turn from `nowS` on. Returns the dropped length, ms. */
  flush(nowS: number): number {
    this.#settle(nowS);
    const dropped = this.#aheadS(nowS);
    this.#heardS += this.#partS(nowS);
    this.#turnHeardS += this.#partS(nowS);
    this.#segments = [];
    this.#endS = -Infinity;
    this.endTurn();
    return dropped * 1000;
  }

  stats(nowS: number): PlaybackStats {
    this.#settle(nowS);
    return {
      playing: this.#aheadS(nowS) > 0,
      aheadMs: this.#aheadS(nowS) * 1000,
      delayMs: this.#delay.ms,
      playedMs: (this.#heardS + this.#partS(nowS)) * 1000,
      turnPlayedMs: (this.#turnHeardS + this.#partS(nowS)) * 1000,
      gaps: this.#gaps,
      gapMs: this.#gapS * 1000,
      driftMs: this.#driftS * 1000,
    };
  }

  /** A turn starts after its delay and after the end of the previous turn. */
  #begin(nowS: number): Placement {
    this.#inTurn = true;
    this.#driftS = 0;
    const startS = Math.max(this.#endS, onGrid(nowS + this.#delay.ms / 1000));
    this.#turnHeardS = 0;
    return { startS, first: true, gapMs: 0 };
  }

  #continue(nowS: number): Placement {
    const aheadS = this.#endS - nowS;
    this.#delay.observe(aheadS * 1000);
    if (aheadS >= 0) return { startS: this.#endS, first: false, gapMs: 0 };
    return this.#resumeAfterGap(nowS);
  }

  /** After a late chunk, half of the delay is inserted to reduce the risk of another gap. */
  #resumeAfterGap(nowS: number): Placement {
    const startS = onGrid(nowS + this.#delay.ms / 2000);
    const gapS = startS - this.#endS;
    this.#gaps += 1;
    this.#gapS += gapS;
    this.#driftS += gapS;
    return { startS, first: false, gapMs: gapS * 1000 };
  }

  /** Counts chunks that were played completely. */
  #settle(nowS: number): void {
    for (let first = this.#segments[0]; first && first.endS <= nowS; first = this.#segments[0]) {
      this.#heardS += first.endS - first.startS;
      this.#turnHeardS += first.endS - first.startS;
      this.#segments.shift();
    }
  }

  #partS(nowS: number): number {
    const first = this.#segments[0];
    return first ? Math.max(0, nowS - first.startS) : 0;
  }

  #aheadS(nowS: number): number {
    const ahead = this.#segments.reduce((sum, { startS, endS }) => sum + endS - startS, 0);
    return ahead - this.#partS(nowS);
  }
}

/**
 * Rounds to the sample grid. Between two samples the browser would interpolate and leave a seam.
 */
function onGrid(timeS: number): number {
  return Math.ceil(timeS * OUTPUT_RATE) / OUTPUT_RATE;
}

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
