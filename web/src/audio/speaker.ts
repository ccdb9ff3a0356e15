import { TypedEvents } from "../state/store.ts";
import { resumeWhenVisible, startContext } from "./auto-resume.ts";
import { PeerLoopback } from "./loopback.ts";
import { MixerChannel } from "./mixer-channel.ts";
import { OUTPUT_RATE, type Samples } from "./pcm.ts";
import { type DelayLimits, delayLimitsFrom } from "./playback-schedule.ts";
import { Player } from "./player.ts";
import { closeTap, openTap } from "./tap.ts";

const BLOCK_SAMPLES = OUTPUT_RATE / 50;

export interface SpeakerEvents {
  /** 20 ms at 24 kHz as played. Silence is included. */
  block: Samples;
}

export interface SpeakerOptions {
  loopback: boolean;
  delayMs?: number | undefined;
}

/** Output of the model's voice: a player, its mixer channel, and the path to the loudspeaker. */
export class Speaker extends TypedEvents<SpeakerEvents> {
  readonly context: AudioContext;
  readonly player: Player;
  readonly channel: MixerChannel;
  loopbackProblem: string | undefined;
  #tap: AudioWorkletNode | undefined;
  #path: PeerLoopback | undefined;
  #paused = false;

  /**
   * `loopback`: play through a peer connection for the echo canceller. If that fails, the audio
   * plays directly and `loopbackProblem` has the reason. `delayMs`: playback delay of the first
   * turn.
   */
  static async open({ loopback, delayMs }: SpeakerOptions): Promise<Speaker> {
    const speaker = new Speaker(outputContext(), delayLimitsFrom(delayMs));
    try {
      await startContext(speaker.context);
      await speaker.#openTap();
      await speaker.#openPath(loopback);
      return speaker;
    } catch (error) {
      await speaker.close();
      throw error;
    }
  }

  private constructor(context: AudioContext, delay: DelayLimits) {
    super();
    this.context = context;
    this.channel = new MixerChannel(context, OUTPUT_RATE);
    resumeWhenVisible(context, () => this.#paused);
    const pathMs = (): number => this.#path?.delayMs ?? 0;
    this.player = new Player(context, this.channel.node, pathMs, delay);
  }

  /** Whether playback goes through the peer connection. */
  get loopback(): boolean {
    return this.#path !== undefined;
  }

  /** Pauses playback. Scheduled audio plays after `resume`. */
  async pause(): Promise<void> {
    this.#paused = true;
    await this.context.suspend();
  }

  async resume(): Promise<void> {
    this.#paused = false;
    await this.context.resume();
  }

  /** Rejects if the browser cannot select a speaker, or if the device is gone. */
  async setSpeaker(deviceId: string): Promise<void> {
    if (this.#path) return this.#path.setSpeaker(deviceId);
    if (!("setSinkId" in this.context))
      throw new DOMException("the browser cannot select a speaker", "NotSupportedError");
    await (this.context as { setSinkId(id: string): Promise<void> }).setSinkId(deviceId);
  }

  async close(): Promise<void> {
    if (this.#tap) closeTap(this.#tap);
    this.#path?.close();
    await this.context.close();
  }

  async #openTap(): Promise<void> {
    const options = { channels: 1, rate: OUTPUT_RATE, blockSamples: BLOCK_SAMPLES };
    this.#tap = await openTap(this.context, options, ([block]) => this.#onBlock(block as Samples));
    this.channel.node.connect(this.#tap);
  }

  async #openPath(loopback: boolean): Promise<void> {
    if (loopback) {
      try {
        this.#path = await PeerLoopback.open(this.context);
      } catch (error) {
        this.loopbackProblem = String(error);
      }
    }
    this.channel.node.connect(this.#path?.input ?? this.context.destination);
    this.player.on("flush", () => this.#path?.silence());
  }

  #onBlock(block: Samples): void {
    this.channel.observe(block);
    this.emit("block", block);
  }
}

function outputContext(): AudioContext {
  const latencyHint = "interactive";
  try {
    return new AudioContext({ sampleRate: OUTPUT_RATE, latencyHint });
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "NotSupportedError")) throw error;
    return new AudioContext({ latencyHint });
  }
}
