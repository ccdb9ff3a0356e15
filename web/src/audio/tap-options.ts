import type { Samples } from "./pcm.ts";

export const TAP_PROCESSOR = "antiphon-tap";

export interface TapOptions {
  channels: number;
  /** Samples per second of the blocks, whatever the context runs at. */
  rate: number;
  /** Samples per block and channel. */
  blockSamples: number;
}

/** One message of a tap: a block of each channel. */
export type TapBlock = Samples[];
