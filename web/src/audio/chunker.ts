import type { Samples } from "./pcm.ts";

/**
 * Splits blocks of any length into blocks of exactly `size` samples. No sample is lost or
 * repeated.
 */
export class Chunker {
  readonly size: number;
  #chunk: Samples;
  #filled = 0;

  constructor(size: number) {
    if (!Number.isInteger(size) || size < 1) throw new RangeError(`invalid chunk size: ${size}`);
    this.size = size;
    this.#chunk = new Float32Array(size);
  }

  /** Number of samples that are buffered for the next chunk. */
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

  /** Drops the buffered samples. */
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
