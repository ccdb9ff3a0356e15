import { openStream } from "../media/open-stream.ts";
import { TypedEvents } from "../state/store.ts";
import { closeTap, openTap, resumeWhenVisible, startContext } from "./audio-context.ts";
import { MixerChannel } from "./mixer-channel.ts";
import { Chunker, INPUT_RATE, type Samples } from "./pcm.ts";

/** An audio input of `Capture`. */
export interface AudioSource {
  /**
   * Connects the source to `context`. Called again with another context if the first one is
   * refused.
   */
  connect(context: AudioContext): Promise<AudioNode>;
  /** Starts or resumes the source. A microphone always runs. */
  start(): Promise<void>;
  pause(): void;
  setMuted(muted: boolean): void;
  /** The source ended: the device was disconnected or the file finished. */
  onEnd(listener: () => void): void;
  /** The device delivers nothing, or delivers sound again. */
  onSilence?(listener: (silent: boolean) => void): void;
  close(): void;
}

/** Constraints for `getUserMedia`. */

export interface MicrophoneOptions {
  /** From `MediaDeviceInfo`. Undefined selects the system default. */
  deviceId?: string | undefined;
  echoCancellation: boolean;
  noiseSuppression: boolean;
  autoGainControl: boolean;
}

export const MICROPHONE_DEFAULTS: MicrophoneOptions = {
  echoCancellation: true,
  noiseSuppression: true,
  autoGainControl: false, // the page has its own gain, measured in LUFS and with limits
};

/**
 * Browsers that support `"all"` cancel everything that the computer plays. Older browsers read it
 * as `true` and cancel only audio from peer connections.
 */
export function microphoneConstraints(options: MicrophoneOptions): MediaTrackConstraints {
  return {
    ...(options.deviceId ? { deviceId: { exact: options.deviceId } } : {}),
    channelCount: { ideal: 1 },
    echoCancellation: options.echoCancellation ? "all" : false,
    noiseSuppression: options.noiseSuppression,
    autoGainControl: options.autoGainControl,
  };
}

/** Returns whether the echo canceller needs playback through a peer connection. */
export function needsLoopback(settings: { echoCancellation?: boolean | string }): boolean {
  return settings.echoCancellation === true || settings.echoCancellation === "remote-only";
}

/**
 * The user's microphone, created by `openMicrophone`. The browser shows it as in use until
 * `close`.
 */
export class Microphone implements AudioSource {
  readonly stream: MediaStream;
  readonly #track: MediaStreamTrack;

  constructor(stream: MediaStream) {
    this.stream = stream;
    this.#track = stream.getAudioTracks()[0] as MediaStreamTrack;
  }

  get label(): string {
    return this.#track.label;
  }

  /** Whether the echo canceller covers only audio from peer connections. */
  get needsLoopback(): boolean {
    return needsLoopback(this.#track.getSettings());
  }

  async connect(context: AudioContext): Promise<AudioNode> {
    return context.createMediaStreamSource(this.stream);
  }

  async start(): Promise<void> {}

  pause(): void {}

  setMuted(muted: boolean): void {
    this.#track.enabled = !muted;
  }

  onEnd(listener: () => void): void {
    this.#track.addEventListener("ended", listener); // unplugged, or permission revoked
  }

  onSilence(listener: (silent: boolean) => void): void {
    this.#track.addEventListener("mute", () => listener(true)); // by a switch, or the system
    this.#track.addEventListener("unmute", () => listener(false));
  }

  close(): void {
    this.#track.stop();
  }
}

/**
 * Opens the default microphone if the selected one is not connected. Rejects with the browser's
 * DOMException: NotAllowedError, NotFoundError, NotReadableError.
 */
export async function openMicrophone(
  options: MicrophoneOptions = MICROPHONE_DEFAULTS,
): Promise<Microphone> {
  const stream = await openStream(options.deviceId, (deviceId) => ({
    audio: microphoneConstraints({ ...options, deviceId }),
  }));
  return new Microphone(stream);
}

/** An audio or video file that plays in real time and replaces the microphone and the camera. */
export class MediaFile implements AudioSource {
  /** Not in the document. A page may insert it as a preview. */
  readonly element: HTMLVideoElement;
  #node: MediaElementAudioSourceNode | undefined;
  #monitor: GainNode | undefined;

  /** Rejects with an Error that can be shown if the browser cannot play the file. */
  static async open(file: Blob): Promise<MediaFile> {
    const element = document.createElement("video");
    element.playsInline = true;
    element.preload = "auto";
    element.src = URL.createObjectURL(file);
    await ready(element);
    return new MediaFile(element);
  }

  private constructor(element: HTMLVideoElement) {
    this.element = element;
  }

  get hasVideo(): boolean {
    return this.element.videoWidth > 0;
  }

  async connect(context: AudioContext): Promise<AudioNode> {
    this.#node ??= context.createMediaElementSource(this.element);
    this.#monitor ??= new GainNode(context, { gain: 0 });
    this.#node.connect(this.#monitor).connect(context.destination);
    return this.#node;
  }

  /** Sets how loud the user hears the file, 0 to 1. Default 0. */
  setMonitor(gain: number): void {
    if (this.#monitor) this.#monitor.gain.value = gain;
  }

  async start(): Promise<void> {
    await this.element.play();
  }

  pause(): void {
    this.element.pause();
  }

  setMuted(): void {} // mute uses the gain of the capture

  onEnd(listener: () => void): void {
    this.element.addEventListener("ended", listener);
  }

  close(): void {
    this.element.pause();
    this.#monitor?.disconnect();
    URL.revokeObjectURL(this.element.src);
    this.element.removeAttribute("src");
    this.element.load();
  }
}

function ready(element: HTMLVideoElement): Promise<void> {
  return new Promise((resolve, reject) => {
    element.oncanplay = () => resolve();
    element.onerror = () => {
      URL.revokeObjectURL(element.src);
      const reason = element.error?.message || "unknown format";
      reject(
        new Error(`This browser cannot play the file (${reason}). Use WAV, MP3, MP4 or WebM.`),
      );
    };
  });
}

/** 20 ms: the resolution of level meters and voice activity detection. */
export const BLOCK_SAMPLES = INPUT_RATE / 50;

interface CaptureEvents {
  /** Mono at 16 kHz, of equal length. */
  chunk: Samples;
  /** 20 ms at 16 kHz. Chunks consist of these blocks. */
  block: Samples;
  /** The source ended. */
  end: undefined;
  /** Whether the source delivers nothing. */
  silence: boolean;
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
  #chunker: Chunker;
  #source: AudioSource;
  #input: AudioNode;
  #tap: AudioWorkletNode | undefined;
  #muted = false;
  #samples = 0;
  #firstBlockAt: number | undefined;

  static async open(source: AudioSource, chunkSamples: number = INPUT_RATE): Promise<Capture> {
    const { context, input } = await contextFor(source);
    const capture = new Capture(context, source, input, chunkSamples);
    try {
      await capture.#start();
      return capture;
    } catch (error) {
      capture.close().catch(() => undefined); // not awaited: the context may not have started
      throw error;
    }
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

  /** Starts a new chunk, with `early` in it. With `chunkSamples`, chunks have another length from now on. */
  restartChunk(chunkSamples: number = this.#chunker.size, early = new Float32Array()): void {
    this.#chunker = new Chunker(chunkSamples);
    for (const chunk of this.#chunker.push(early)) this.emit("chunk", chunk);
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
    source.onSilence?.((silent) => {
      if (source === this.#source) this.emit("silence", silent);
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
