import { TypedEvents } from "../state/store.ts";
import { closeTap, openTap, resumeWhenVisible, startContext } from "./audio-context.ts";
import type { AudioSource } from "./audio-source.ts";
import { MixerChannel } from "./mixer-channel.ts";
import { Chunker, INPUT_RATE, type Samples } from "./pcm.ts";

/** 20 ms: the resolution of level meters and voice activity detection. */
export const BLOCK_SAMPLES = INPUT_RATE / 50;

export interface CaptureEvents {
  /** Exactly `chunkSamples` samples at 16 kHz. */
  chunk: Samples;
  /** 20 ms at 16 kHz. Chunks consist of these blocks. */
  block: Samples;
  /** The source ended. */
  end: undefined;
}

/**
 * Captures a source as mono chunks of exact length at 16 kHz. If the browser refuses a 16 kHz
 * context for the source, the context runs at its own rate and the tap resamples.
 */
export class Capture extends TypedEvents<CaptureEvents> {
  readonly context: AudioContext;
  readonly channel: MixerChannel;
  /** The captured stream after gain and mute, for recorders. */
  readonly stream: MediaStream;
  readonly #chunker: Chunker;
  #source: AudioSource;
  #input: AudioNode;
  #tap: AudioWorkletNode | undefined;
  #muted = false;
  #samples = 0;
  #firstBlockAt: number | undefined;

  static async open(source: AudioSource, chunkSamples: number = INPUT_RATE): Promise<Capture> {
    const { context, input } = await contextFor(source);
    const capture = new Capture(context, source, input, chunkSamples);
    await capture.#start();
    return capture;
  }

  private constructor(
    context: AudioContext,
    source: AudioSource,
    input: AudioNode,
    chunkSamples: number,
  ) {
    super();
    this.context = context;
    this.channel = new MixerChannel(context, INPUT_RATE);
    this.#chunker = new Chunker(chunkSamples);
    this.#source = source;
    this.#input = input;
    const destination = context.createMediaStreamDestination();
    this.channel.node.connect(destination);
    this.stream = destination.stream;
  }

  get muted(): boolean {
    return this.#muted;
  }

  set muted(muted: boolean) {
    this.#muted = muted;
    this.#source.setMuted(muted);
    this.channel.muted = muted;
  }

  /** Clock drift of the device against the page, ms. Positive if the device runs fast. */
  get driftMs(): number {
    if (this.#firstBlockAt === undefined) return 0;
    const capturedMs = (this.#samples / INPUT_RATE) * 1000;
    return capturedMs - (performance.now() - this.#firstBlockAt);
  }

  /** Switches to another source and closes the old one. Chunks continue without a gap. */
  async replace(source: AudioSource): Promise<void> {
    const input = await source.connect(this.context);
    this.#input.disconnect();
    this.#source.close();
    this.#source = source;
    this.#input = input;
    this.#attach();
  }

  /** Starts a new chunk. */
  restartChunk(): void {
    this.#chunker.clear();
  }

  async close(): Promise<void> {
    this.#source.close();
    this.#input.disconnect();
    if (this.#tap) closeTap(this.#tap);
    await this.context.close();
  }

  async #start(): Promise<void> {
    const options = { channels: 1, rate: INPUT_RATE, blockSamples: BLOCK_SAMPLES };
    this.#tap = await openTap(this.context, options, ([block]) => this.#onBlock(block as Samples));
    this.channel.node.connect(this.#tap);
    this.#attach();
    resumeWhenVisible(this.context);
    await startContext(this.context);
  }

  #attach(): void {
    const source = this.#source;
    this.#input.connect(this.channel.node);
    source.setMuted(this.#muted);
    source.onEnd(() => {
      if (source === this.#source) this.emit("end", undefined);
    });
  }

  #onBlock(block: Samples): void {
    this.#firstBlockAt ??= performance.now();
    this.#samples += block.length;
    this.channel.observe(block);
    this.emit("block", block);
    for (const chunk of this.#chunker.push(block)) this.emit("chunk", chunk);
  }
}

async function contextFor(
  source: AudioSource,
): Promise<{ context: AudioContext; input: AudioNode }> {
  try {
    return await connected(new AudioContext({ sampleRate: INPUT_RATE }), source);
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "NotSupportedError")) throw error;
    return connected(new AudioContext(), source);
  }
}

async function connected(
  context: AudioContext,
  source: AudioSource,
): Promise<{ context: AudioContext; input: AudioNode }> {
  try {
    return { context, input: await source.connect(context) };
  } catch (error) {
    await context.close();
    throw error;
  }
}
