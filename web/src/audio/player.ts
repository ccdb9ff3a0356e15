import { TypedEvents } from "../state/store.ts";
import { OUTPUT_RATE, type Samples } from "./pcm.ts";
import { resample } from "./sinc-resampler.ts";

/** Playback statistics, in milliseconds of audio. */
interface PlaybackStats {
  /** Audio is scheduled, also while playback is paused. */
  playing: boolean;
  paused: boolean;
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
interface Placement {
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
 *
 * During a pause the schedule stands still. `resume` moves what was not played by the length of the
 * pause. So a pause is no gap, and chunks that arrive in it wait behind the others.
 */
export class PlaybackSchedule {
  readonly #delay: PlaybackDelay;
  #segments: Segment[] = []; // not completely played
  #endS = -Infinity;
  #held = false;
  #inTurn = false;
  #playedS = 0;
  #turnPlayedS = 0;
  #gaps = 0;
  #gapS = 0;
  #driftS = 0;
  #pausedAtS: number | undefined;
  #resumedAtS = -Infinity;
  #turnPausedS = 0;

  constructor(limits: DelayLimits = PLAYBACK_DELAY) {
    this.#delay = new PlaybackDelay(limits);
  }

  get paused(): boolean {
    return this.#pausedAtS !== undefined;
  }

  /** Pauses at `atS`, now or soon. */
  pause(atS: number): void {
    this.#pausedAtS ??= atS;
  }

  /** Continues at `atS`, now or soon. Returns the length of the pause, seconds. */
  resume(atS: number): number {
    if (this.#pausedAtS === undefined) return 0;
    this.#settle(atS);
    const shiftS = atS - this.#pausedAtS;
    this.#segments = this.#segments.map(({ startS, endS }) => ({
      startS: startS + shiftS,
      endS: endS + shiftS,
    }));
    this.#endS += shiftS;
    this.#turnPausedS += shiftS;
    this.#pausedAtS = undefined;
    this.#resumedAtS = atS;
    return shiftS;
  }

  /** In a pause, placements are on the clock that stands still. */
  push(durationS: number, nowS: number): Placement {
    this.#settle(nowS);
    const placement = this.#inTurn ? this.#continue(nowS) : this.#begin(nowS);
    this.#endS = placement.startS + durationS;
    this.#segments.push({ startS: placement.startS, endS: this.#endS });
    return placement;
  }

  /** The server paused the turn: its next chunks are not late. */
  hold(): void {
    this.#held = this.#inTurn;
  }

  /** Ends the turn. Scheduled chunks still play. */
  endTurn(): void {
    if (this.#inTurn) this.#delay.settle();
    this.#inTurn = false;
  }

  /** Drops the rest of the turn from `nowS` on, and ends a pause. Returns the dropped length, ms. */
  flush(nowS: number): number {
    this.#settle(nowS);
    const dropped = this.#aheadS(nowS);
    this.#playedS += this.#partS(nowS);
    this.#turnPlayedS += this.#partS(nowS);
    this.#segments = [];
    this.#endS = -Infinity;
    this.#pausedAtS = undefined;
    this.endTurn();
    return dropped * 1000;
  }

  stats(nowS: number): PlaybackStats {
    this.#settle(nowS);
    return {
      playing: this.#aheadS(nowS) > 0,
      paused: this.paused,
      aheadMs: this.#aheadS(nowS) * 1000,
      delayMs: this.#delay.ms,
      playedMs: (this.#playedS + this.#partS(nowS)) * 1000,
      turnPlayedMs: (this.#turnPlayedS + this.#partS(nowS)) * 1000,
      gaps: this.#gaps,
      gapMs: this.#gapS * 1000,
      driftMs: this.#driftS * 1000,
    };
  }

  /** A turn starts after its delay and after the end of the previous turn. */
  #begin(nowS: number): Placement {
    this.#inTurn = true;
    this.#held = false;
    this.#driftS = 0;
    this.#turnPausedS = -this.#inPauseS(nowS);
    const startS = Math.max(this.#endS, onGrid(this.#clockS(nowS) + this.#delay.ms / 1000));
    this.#turnPlayedS = 0;
    return { startS, first: true, gapMs: 0 };
  }

  #continue(nowS: number): Placement {
    const aheadS = this.#endS - this.#clockS(nowS);
    const pausedS = this.#turnPausedS + this.#inPauseS(nowS);
    if (!this.#held) this.#delay.observe((aheadS - pausedS) * 1000); // as if there had been no pause
    if (aheadS >= 0) return { startS: this.#endS, first: false, gapMs: 0 };
    return this.#resumeAfterGap(nowS);
  }

  /** After a late chunk, half of the delay is inserted to reduce the risk of another gap. */
  #resumeAfterGap(nowS: number): Placement {
    const startS = onGrid(this.#clockS(nowS) + this.#delay.ms / 2000);
    const gapS = startS - this.#endS;
    this.#turnPausedS = -this.#inPauseS(nowS);
    this.#gaps += 1;
    this.#gapS += gapS;
    this.#driftS += gapS;
    return { startS, first: false, gapMs: gapS * 1000 };
  }

  /** The time on the clock that stands still during a pause. */
  #clockS(nowS: number): number {
    return Math.min(Math.max(nowS, this.#resumedAtS), this.#pausedAtS ?? Infinity);
  }

  /** Time since the start of a pause. */
  #inPauseS(nowS: number): number {
    return Math.max(0, nowS - (this.#pausedAtS ?? Infinity));
  }

  /** Counts chunks that were played completely. */
  #settle(nowS: number): void {
    const clockS = this.#clockS(nowS);
    for (let first = this.#segments[0]; first && first.endS <= clockS; first = this.#segments[0]) {
      this.#playedS += first.endS - first.startS;
      this.#turnPlayedS += first.endS - first.startS;
      this.#segments.shift();
    }
  }

  #partS(nowS: number): number {
    const first = this.#segments[0];
    return first ? Math.max(0, this.#clockS(nowS) - first.startS) : 0;
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
class PlaybackDelay {
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

const FADE_S = 0.008;
/** A pause is placed a little later than now, so that the browser has not yet computed that audio. */
const LEAD_S = 0.01;

/**
 * Latency of the audio output, 0 where it is unknown. In Firefox a read of `outputLatency` can stop
 * the page for ever: it waits for the audio server, which waits for the audio graph, which waits
 * for a lock that the read holds (seen in Firefox 153 with PulseAudio).
 */
function outputLatencyS(context: AudioContext): number {
  return navigator.userAgent.includes("Firefox/") ? 0 : context.outputLatency || 0;
}

export interface PlayerEvents {
  /**
   * A turn starts to play at `atMs` (`performance.now()`), including the output latency where the
   * browser reports it.
   */
  start: { atMs: number; delayMs: number };
  /** A chunk arrived too late. */
  gap: { gapMs: number };
  /** Everything that was scheduled has been played. */
  idle: { playedMs: number };
  flush: { droppedMs: number; playedMs: number };
  pause: undefined;
  /** Playback continues after a pause. */
  resume: undefined;
}

/** A chunk in the schedule. */
interface Scheduled {
  readonly buffer: AudioBuffer;
  readonly startS: number;
  /** The first chunk of a turn that was not announced yet. */
  readonly announces: boolean;
}

/**
 * Plays 24 kHz chunks without seams into `output`, as `PlaybackSchedule` decides. `context` should
 * run at 24 kHz. At any other rate each chunk is resampled separately.
 */
export class Player extends TypedEvents<PlayerEvents> {
  readonly #context: AudioContext;
  readonly #output: AudioNode;
  readonly #pathMs: () => number;
  readonly #schedule: PlaybackSchedule;
  readonly #sources = new Map<AudioBufferSourceNode, Scheduled>();
  #waiting: Scheduled[] = []; // during a pause
  #voice: GainNode;

  /** `pathMs`: latency that the path after `output` adds to the browser's own latency. */
  constructor(
    context: AudioContext,
    output: AudioNode,
    pathMs: () => number = () => 0,
    delay: DelayLimits = PLAYBACK_DELAY,
  ) {
    super();
    this.#schedule = new PlaybackSchedule(delay);
    this.#pathMs = pathMs;
    this.#context = context;
    this.#output = output;
    this.#voice = this.#newVoice();
  }

  get stats(): PlaybackStats {
    return this.#schedule.stats(this.#context.currentTime);
  }

  /** From the end of a sound on the clock of the context until it has been heard. */
  get latencyMs(): number {
    return (this.#context.baseLatency + outputLatencyS(this.#context)) * 1000 + this.#pathMs();
  }

  push(samples: Samples): void {
    if (samples.length === 0) {
      this.#schedule.hold();
      return;
    }
    const now = this.#context.currentTime;
    const { startS, first, gapMs } = this.#schedule.push(samples.length / OUTPUT_RATE, now);
    const chunk = { buffer: this.#bufferOf(samples), startS, announces: first };
    if (this.#schedule.paused) this.#waiting.push(chunk);
    else this.#play(chunk);
    if (gapMs > 0) this.emit("gap", { gapMs });
  }

  /** Ends the turn. The next chunk starts a new one. */
  endTurn(): void {
    this.#schedule.endTurn();
  }

  /**
   * Fades out within 8 ms and keeps what was not played. Chunks that arrive wait behind it. Returns the
   * time until silence, ms, including the output latency where the browser reports it.
   */
  pause(): number {
    const silentInMs = (LEAD_S + FADE_S) * 1000 + this.latencyMs;
    if (this.#schedule.paused) return silentInMs;
    const at = onGrid(this.#context.currentTime + LEAD_S);
    this.#schedule.pause(at);
    this.#waiting = [...this.#sources.values()].filter(({ buffer, startS }) => {
      return startS + buffer.duration > at;
    });
    this.#fadeOut(at);
    this.emit("pause", undefined);
    return silentInMs;
  }

  /**
   * Plays the rest after a pause. The samples that faded out fade in, so that each counts once in
   * the sum of both.
   */
  resume(): void {
    if (!this.#schedule.paused) return;
    const at = onGrid(this.#context.currentTime + LEAD_S);
    const shiftS = this.#schedule.resume(at);
    const gain = this.#voice.gain;
    gain.setValueAtTime(0, at);
    gain.linearRampToValueAtTime(1, at + FADE_S);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const chunk of waiting) this.#play({ ...chunk, startS: chunk.startS + shiftS }, at);
    if (waiting.length > 0) this.emit("resume", undefined);
    else this.emit("idle", { playedMs: this.stats.turnPlayedMs });
  }

  /** Stops playback at once: fades out within 8 ms and drops scheduled chunks. */
  flush(): void {
    const now = this.#context.currentTime;
    const droppedMs = this.#schedule.flush(now);
    this.#waiting = [];
    if (droppedMs === 0) return;
    this.#fadeOut(now);
    this.emit("flush", { droppedMs, playedMs: this.stats.turnPlayedMs });
  }

  /** Plays the part of a chunk after `fromS`. */
  #play(chunk: Scheduled, fromS = chunk.startS): void {
    const source = this.#context.createBufferSource();
    source.buffer = chunk.buffer;
    source.connect(this.#voice);
    source.onended = () => this.#ended(source);
    source.start(Math.max(chunk.startS, fromS), Math.max(0, fromS - chunk.startS));
    this.#sources.set(source, { ...chunk, announces: false });
    if (chunk.announces) this.#announce(chunk.startS - this.#context.currentTime);
  }

  #bufferOf(samples: Samples): AudioBuffer {
    const rate = this.#context.sampleRate;
    const adapted = rate === OUTPUT_RATE ? samples : resample(samples, OUTPUT_RATE, rate);
    const buffer = this.#context.createBuffer(1, adapted.length, rate);
    buffer.copyToChannel(adapted, 0);
    return buffer;
  }

  #ended(source: AudioBufferSourceNode): void {
    source.disconnect();
    if (this.#sources.delete(source) && this.#sources.size === 0) {
      this.emit("idle", { playedMs: this.stats.turnPlayedMs });
    }
  }

  #announce(inS: number): void {
    const delayMs = inS * 1000 + this.latencyMs;
    this.emit("start", { atMs: performance.now() + delayMs, delayMs });
  }

  #fadeOut(now: number): void {
    const gain = this.#voice.gain;
    gain.setValueAtTime(1, now);
    gain.linearRampToValueAtTime(0, now + FADE_S);
    for (const source of this.#sources.keys()) source.stop(now + FADE_S);
    this.#sources.clear();
    this.#voice = this.#newVoice();
  }

  #newVoice(): GainNode {
    const voice = this.#context.createGain();
    voice.connect(this.#output);
    return voice;
  }
}
