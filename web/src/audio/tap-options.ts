import type { Samples } from "./pcm.ts";

export const TAP_PROCESSOR = "antiphon-tap";

export interface TapOptions {
  channels: number;
  /** Sample rate of the blocks, independent of the context. */
  rate: number;
  /** Samples per block and channel. */
  blockSamples: number;
}

/** A message of a tap: one block per channel. */
export type TapBlock = Samples[];
