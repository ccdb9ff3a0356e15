import { OUTPUT_RATE } from "./pcm.ts";
import { type DelayLimits, PLAYBACK_DELAY, PlaybackDelay } from "./playback-delay.ts";

/** What a player tells of itself; milliseconds of sound. */
export interface PlaybackStats {
  playing: boolean;
  /** Scheduled and not yet heard. */
  aheadMs: number;
  /** Before the next turn sounds. */
  delayMs: number;
  /** Heard since the start. */
  playedMs: number;
  /** Heard of the running turn, or of the last one. */
  turnPlayedMs: number;
  /** Times that a turn fell silent because a chunk came too late, and how long it was silent in all. */
  gaps: number;
  gapMs: number;
  /** How much later the running turn sounds than it would without gaps. */
  driftMs: number;
}

/** Where a chunk was put. */
export interface Placement {
  /** On the clock that `now` was read from, seconds. */
  startS: number;
  /** The first of its turn. */
  first: boolean;
  /** Silence before it that should not be, ms. */
  gapMs: number;
}

interface Segment {
  startS: number;
  endS: number;
}

/**
 * When each chunk sounds, so that a turn has no seams. Pure: every method is told the time, in seconds
 * on one clock that does not run back.
 */
export class PlaybackSchedule {
  readonly #delay: PlaybackDelay;
  #segments: Segment[] = []; // not wholly heard yet
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

  /** What comes next is another turn; what is scheduled still sounds. */
  endTurn(): void {
    if (this.#inTurn) this.#delay.settle();
    this.#inTurn = false;
  }

  /** Nothing more of this turn sounds from `nowS` on. Returns how much is dropped, ms. */
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

  /** A turn waits for its delay, and for the one before it. */
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

  /** Chunks that were late once are late again: half the delay stands between this one and the next gap. */
  #resumeAfterGap(nowS: number): Placement {
    const startS = onGrid(nowS + this.#delay.ms / 2000);
    const gapS = startS - this.#endS;
    this.#gaps += 1;
    this.#gapS += gapS;
    this.#driftS += gapS;
    return { startS, first: false, gapMs: gapS * 1000 };
  }

  /** Count what has been heard to its end. */
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

/** Between two samples a browser would interpolate, and leave a seam at each end of the chunk. */
function onGrid(timeS: number): number {
  return Math.ceil(timeS * OUTPUT_RATE) / OUTPUT_RATE;
}
