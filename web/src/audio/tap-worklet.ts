import { Chunker, type Samples } from "./pcm.ts";
import { SincResampler } from "./sinc-resampler.ts";

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

// Globals of an audio worklet that the DOM library types lack.
declare const sampleRate: number;
declare class AudioWorkletProcessor {
  constructor(options?: AudioWorkletNodeOptions);
  readonly port: MessagePort;
}
declare function registerProcessor(
  name: string,
  processor: new (options: AudioWorkletNodeOptions) => AudioWorkletProcessor,
): void;

/** Copies its input to the page as equal blocks at a fixed rate. */
class TapProcessor extends AudioWorkletProcessor {
  readonly #channels: ChannelTap[];

  constructor(options: AudioWorkletNodeOptions) {
    super();
    const tap = options.processorOptions as TapOptions;
    this.#channels = Array.from({ length: tap.channels }, () => new ChannelTap(tap));
  }

  process([input]: Float32Array[][]): boolean {
    const blocks = this.#channels.map((tap, channel) => tap.push(input?.[channel]));
    for (const [index] of (blocks[0] ?? []).entries()) {
      const message = blocks.map((channel) => channel[index] as Samples);
      this.port.postMessage(
        message,
        message.map((block) => block.buffer),
      );
    }
    return true;
  }
}

class ChannelTap {
  readonly #resampler: SincResampler | undefined;
  readonly #chunker: Chunker;

  constructor({ rate, blockSamples }: TapOptions) {
    this.#resampler = rate === sampleRate ? undefined : new SincResampler(sampleRate, rate);
    this.#chunker = new Chunker(blockSamples);
  }

  /** A missing channel counts as silence so that the clock continues. */
  push(samples: Float32Array = new Float32Array(128)): Samples[] {
    return this.#chunker.push(this.#resampler?.push(samples) ?? samples);
  }
}

registerProcessor(TAP_PROCESSOR, TapProcessor);
