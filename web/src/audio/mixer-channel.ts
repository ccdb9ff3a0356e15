import { AutoGain } from "./auto-gain.ts";
import { type Loudness, LoudnessMeter, SILENCE } from "./loudness.ts";

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
