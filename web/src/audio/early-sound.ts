import { BLOCK_SAMPLES } from "./capture.ts";
import { concatSamples, INPUT_RATE, type Samples } from "./pcm.ts";

const MOST_BLOCKS = (2.4 * INPUT_RATE) / BLOCK_SAMPLES;
const QUIET_BLOCKS = (0.3 * INPUT_RATE) / BLOCK_SAMPLES;

/**
 * What the user says before a session is active: at most 2.4 s: a worker that is three seconds behind skips
 * sound. A pause keeps 0.3 s of its length, so that a slow start does not push the words out.
 */
export class EarlySound {
  #blocks: Samples[] = [];
  #quiet = 0;
  #hasSpeech = false;

  /** 20 ms. `speaks`: whether the user speaks at its end. */
  push(block: Samples, speaks: boolean): void {
    this.#blocks.push(block);
    this.#quiet = speaks ? 0 : this.#quiet + 1;
    this.#hasSpeech ||= speaks;
    if (this.#quiet > QUIET_BLOCKS) {
      this.#blocks.splice(-this.#quiet, 1);
      this.#quiet = QUIET_BLOCKS;
    }
    if (this.#blocks.length > MOST_BLOCKS) this.#blocks.shift();
  }

  clear(): void {
    this.#blocks = [];
    this.#quiet = 0;
    this.#hasSpeech = false;
  }

  /** Empty without speech. */
  take(): Samples {
    const sound = concatSamples(this.#hasSpeech ? this.#blocks : []);
    this.clear();
    return sound;
  }
}
