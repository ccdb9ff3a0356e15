import { TypedEvents } from "../state/store.ts";
import {
  type AudioSource,
  BLOCK_SAMPLES,
  Capture,
  MICROPHONE_DEFAULTS,
  Microphone,
  type MicrophoneOptions,
  openMicrophone,
} from "./capture.ts";
import type { Loudness } from "./mixer-channel.ts";
import { INPUT_RATE, type Samples } from "./pcm.ts";
import type { Player } from "./player.ts";
import { Speaker } from "./speaker.ts";
import { type SpeechNetwork, UserVoice, type VoiceChange } from "./voice-activity.ts";

export interface AudioEngineOptions {
  microphone?: MicrophoneOptions;
  /** A `MediaFile` that replaces the microphone. */
  source?: AudioSource | undefined;
  speakerId?: string | undefined;
  /** Samples per chunk at 16 kHz. By default a second; `start` can change it. */
  chunkSamples?: number;
  autoGain?: { user: boolean; model: boolean };
  /** Playback delay of the model's first turn. Later delays adapt to the network. */
  delayMs?: number | undefined;
  /**
   * Whether playback goes through the loopback peer connection: only if the echo canceller needs
   * it, always, or never.
   */
  loopback?: "auto" | "always" | "never";
  /** Whether speech is detected by the Silero network. Default false: by loudness. */
  silero?: boolean;
}

export interface Levels {
  user: Loudness;
  model: Loudness;
}

interface AudioEngineEvents {
  /** Mono at 16 kHz, of equal length. */
  chunk: Samples;
  /**
   * Blocks of 20 ms: the user at 16 kHz, and the model as played at 24 kHz. Silence is included.
   */
  userBlock: Samples;
  modelBlock: Samples;
  /** The user's voice changes. */
  voice: VoiceChange;
  /** Sent ten times per second. */
  levels: Levels;
  /** The microphone was disconnected, or the file has ended. */
  sourceEnd: undefined;
  /** Whether the microphone delivers nothing, for example because of a switch of the device. */
  sourceSilence: boolean;
}

const BLOCK_MS = (BLOCK_SAMPLES / INPUT_RATE) * 1000;
const BLOCKS_PER_LEVEL = 5;

/**
 * Microphone or file, capture, speaker, gains and level meters of a session. It makes no
 * decisions.
 */
export class AudioEngine extends TypedEvents<AudioEngineEvents> {
  readonly capture: Capture;
  readonly speaker: Speaker;
  readonly #voice: UserVoice;
  readonly #loopback: AudioEngineOptions["loopback"];
  #source: AudioSource;
  #blocks = 0;

  /**
   * Call it in a user gesture. Rejects with the browser's DOMException if the microphone is
   * denied.
   */
  static async open(options: AudioEngineOptions = {}): Promise<AudioEngine> {
    const source =
      options.source ?? (await openMicrophone(options.microphone ?? MICROPHONE_DEFAULTS));
    const opened: { close(): unknown }[] = [source];
    try {
      const capture = await Capture.open(source, options.chunkSamples);
      opened.push(capture);
      const loopback = wantsLoopback(source, options.loopback);
      const speaker = await Speaker.open({ loopback, delayMs: options.delayMs });
      opened.push(speaker);
      // the default output is used if the speaker is gone or cannot be selected
      if (options.speakerId) await speaker.setSpeaker(options.speakerId).catch(() => undefined);
      return new AudioEngine(source, capture, speaker, options);
    } catch (error) {
      for (const part of opened) part.close();
      throw error;
    }
  }

  private constructor(
    source: AudioSource,
    capture: Capture,
    speaker: Speaker,
    { autoGain, silero, loopback }: AudioEngineOptions,
  ) {
    super();
    this.#source = source;
    this.capture = capture;
    this.speaker = speaker;
    this.#loopback = loopback;
    capture.channel.autoGain = autoGain?.user ?? false;
    speaker.channel.autoGain = autoGain?.model ?? false;
    this.#voice = new UserVoice(silero ? loadSilero() : undefined);
    capture.on("block", (block) => this.#onUserBlock(block));
    capture.on("chunk", (chunk) => this.emit("chunk", chunk));
    capture.on("end", () => this.emit("sourceEnd", undefined));
    capture.on("silence", (silent) => this.emit("sourceSilence", silent));
    speaker.on("block", (block) => this.emit("modelBlock", block));
  }

  get player(): Player {
    return this.speaker.player;
  }

  get source(): AudioSource {
    return this.#source;
  }

  get userSpeaks(): boolean {
    return this.#voice.speaking;
  }

  /** Time of the last user speech by `performance.now()`. -Infinity before the first. */
  get userLastSpokeAt(): number {
    return performance.now() - this.#voice.quietMs;
  }

  /** Time since the first sound of what the user says, ms. 0 while the user is silent. */
  get userVoiceMs(): number {
    return this.#voice.voiceMs;
  }

  get levels(): Levels {
    return { user: this.capture.channel.loudness, model: this.speaker.channel.loudness };
  }

  /**
   * Starts chunks and file playback, and resumes the model's speech. With `chunkSamples`, chunks have
   * another length. They begin with `early`.
   */
  async start(chunkSamples?: number, early?: Samples): Promise<void> {
    this.capture.restartChunk(chunkSamples, early);
    await Promise.all([this.#source.start(), this.speaker.resume()]);
  }

  /** Pauses the file and the model's speech. Chunks continue. */
  async pause(): Promise<void> {
    this.#source.pause();
    await this.speaker.pause();
  }

  async replaceSource(source: AudioSource): Promise<void> {
    await this.capture.replace(source);
    this.#source = source;
    // not awaited: during a pause, the browser may start it only at the end
    if (wantsLoopback(source, this.#loopback)) void this.speaker.addLoopback();
  }

  async close(): Promise<void> {
    await Promise.all([this.capture.close(), this.speaker.close()]);
  }

  #onUserBlock(block: Samples): void {
    for (const change of this.#voice.push(block, BLOCK_MS)) this.emit("voice", change);
    this.emit("userBlock", block);
    this.#blocks += 1;
    if (this.#blocks % BLOCKS_PER_LEVEL === 0) this.emit("levels", this.levels);
  }
}

async function loadSilero(): Promise<SpeechNetwork> {
  return (await import("./silero-network.ts")).load();
}

function wantsLoopback(
  source: AudioSource,
  choice: AudioEngineOptions["loopback"] = "auto",
): boolean {
  if (choice !== "auto") return choice === "always";
  return source instanceof Microphone && source.needsLoopback;
}
