import { TypedEvents } from "../state/store.ts";
import { OUTPUT_RATE, type Samples } from "./pcm.ts";
import {
  type DelayLimits,
  PLAYBACK_DELAY,
  PlaybackSchedule,
  type PlaybackStats,
} from "./playback-schedule.ts";
import { resample } from "./sinc-resampler.ts";

const FADE_S = 0.008;

export interface PlayerEvents {
  /**
   * A turn starts to play at `atMs` (`performance.now()`), including the output latency that the
   * browser reports.
   */
  start: { atMs: number; delayMs: number };
  /** A chunk arrived too late. */
  gap: { gapMs: number };
  /** Everything that was scheduled has been played. */
  idle: { playedMs: number };
  flush: { droppedMs: number; playedMs: number };
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
  readonly #sources = new Set<AudioBufferSourceNode>();
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

  push(samples: Samples): void {
    if (samples.length === 0) return;
    const now = this.#context.currentTime;
    const { startS, first, gapMs } = this.#schedule.push(samples.length / OUTPUT_RATE, now);
    this.#play(samples, startS);
    if (gapMs > 0) this.emit("gap", { gapMs });
    if (first) this.#announce(startS - now);
  }

  /** Ends the turn. The next chunk starts a new one. */
  endTurn(): void {
    this.#schedule.endTurn();
  }

  /** Stops playback at once: fades out within 8 ms and drops scheduled chunks. */
  flush(): void {
    const now = this.#context.currentTime;
    const droppedMs = this.#schedule.flush(now);
    if (droppedMs === 0) return;
    this.#fadeOut(now);
    this.emit("flush", { droppedMs, playedMs: this.stats.turnPlayedMs });
  }

  #play(samples: Samples, startS: number): void {
    const source = this.#context.createBufferSource();
    source.buffer = this.#bufferOf(samples);
    source.connect(this.#voice);
    source.onended = () => this.#ended(source);
    source.start(startS);
    this.#sources.add(source);
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
    const latencyS = this.#context.baseLatency + (this.#context.outputLatency || 0);
    const delayMs = (inS + latencyS) * 1000 + this.#pathMs();
    this.emit("start", { atMs: performance.now() + delayMs, delayMs });
  }

  #fadeOut(now: number): void {
    const gain = this.#voice.gain;
    gain.setValueAtTime(1, now);
    gain.linearRampToValueAtTime(0, now + FADE_S);
    for (const source of this.#sources) source.stop(now + FADE_S);
    this.#sources.clear();
    this.#voice = this.#newVoice();
  }

  #newVoice(): GainNode {
    const voice = this.#context.createGain();
    voice.connect(this.#output);
    return voice;
  }
}
