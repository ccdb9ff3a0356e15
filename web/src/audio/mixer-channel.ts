import { AutoGain } from "./auto-gain.ts";
import { type Loudness, LoudnessMeter, SILENCE } from "./loudness.ts";

const GLIDE_S = 0.02;
const STEP_S = 0.1;

/** One side of the mixer: its gain by hand or by loudness, mute, and a meter of what comes out. */
export class MixerChannel {
  readonly node: GainNode;
  readonly #meter: LoudnessMeter;
  readonly #auto = new AutoGain();
  #loudness = SILENCE;
  #faderDb = 0;
  #muted = false;
  autoGain = false;

  /** `rate`: of the blocks that `observe` will be given. */
  constructor(context: AudioContext, rate: number) {
    this.node = context.createGain();
    this.#meter = new LoudnessMeter(rate);
  }

  /** Behind the gain, as of the last 100 ms. */
  get loudness(): Loudness {
    return this.#loudness;
  }

  /** Set by hand, dB; the automatic gain comes on top. */
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

  /** Mono samples as they left `node`. */
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
