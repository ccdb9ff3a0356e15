import type { Samples } from "./pcm.ts";

/** Makes blocks of exactly `size` samples out of blocks of any length; nothing is lost or repeated. */
export class Chunker {
  readonly size: number;
  #chunk: Samples;
  #filled = 0;

  constructor(size: number) {
    if (!Number.isInteger(size) || size < 1) throw new RangeError(`chunk of ${size} samples`);
    this.size = size;
    this.#chunk = new Float32Array(size);
  }

  /** Samples that wait for the chunk to be full. */
  get pending(): number {
    return this.#filled;
  }

  push(block: Float32Array): Samples[] {
    const full: Samples[] = [];
    let at = 0;
    while (at < block.length) {
      const part = block.subarray(at, at + this.size - this.#filled);
      this.#chunk.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
      if (this.#filled === this.size) full.push(this.#take());
    }
    return full;
  }

  /** Forget what waits. */
  clear(): void {
    this.#filled = 0;
  }

  #take(): Samples {
    const chunk = this.#chunk;
    this.#chunk = new Float32Array(this.size);
    this.#filled = 0;
    return chunk;
  }
}
