import { Chunker } from "./chunker.ts";
import { INPUT_RATE, type Samples } from "./pcm.ts";
import { LoudnessDetector, levelDb, SpeechDetector, STEP_SAMPLES } from "./voice-activity.ts";

const STEP_MS = (STEP_SAMPLES / INPUT_RATE) * 1000;

/** Computes the probability, in [0, 1], that the next `STEP_SAMPLES` samples at 16 kHz are speech. */
export interface SpeechNetwork {
  step(samples: Samples): number;
}

/**
 * Whether the user speaks. A network decides if there is one. Until it is loaded, or if it cannot
 * be loaded, the loudness decides.
 */
export class UserVoice {
  readonly #loudness = new LoudnessDetector();
  readonly #speech = new SpeechDetector();
  readonly #chunker = new Chunker(STEP_SAMPLES);
  #network: SpeechNetwork | undefined;
  #detector: LoudnessDetector | SpeechDetector = this.#loudness;

  constructor(loading?: Promise<SpeechNetwork>) {
    loading?.then(
      (network) => {
        this.#network = network;
      },
      () => undefined,
    );
  }

  get speaking(): boolean {
    return this.#detector.speaking;
  }

  /** Time since the last speech. Infinity before the first. */
  get quietMs(): number {
    return this.#detector.quietMs;
  }

  /**
   * Captured audio at 16 kHz. Returns true if speech starts, false if it ends, undefined if
   * nothing changes.
   */
  push(block: Samples, blockMs: number): boolean | undefined {
    const before = this.speaking;
    this.#loudness.push(block, blockMs);
    if (this.#network) this.#listen(this.#network, block);
    return this.speaking === before ? undefined : this.speaking;
  }

  /** The network takes over in a pause, so that one sound does not count twice. */
  #listen(network: SpeechNetwork, block: Samples): void {
    for (const step of this.#chunker.push(block)) {
      this.#speech.push(network.step(step), levelDb(step), STEP_MS);
    }
    if (!this.#loudness.speaking) this.#detector = this.#speech;
  }
}
