import type { AudioSource } from "./audio-source.ts";
import {
  MICROPHONE_DEFAULTS,
  type MicrophoneOptions,
  microphoneConstraints,
  needsLoopback,
} from "./microphone-constraints.ts";

/** The user's voice. Made by `openMicrophone`; the browser shows it as in use until `close`. */
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

  /** Whether its echo canceller hears only what comes over a peer connection. */
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
    this.#track.addEventListener("ended", listener); // unplugged, or permission withdrawn
  }

  close(): void {
    this.#track.stop();
  }
}

/** Rejects with the browser's DOMException: NotAllowedError, NotFoundError, NotReadableError, OverconstrainedError. */
export async function openMicrophone(
  options: MicrophoneOptions = MICROPHONE_DEFAULTS,
): Promise<Microphone> {
  const audio = microphoneConstraints(options);
  return new Microphone(await navigator.mediaDevices.getUserMedia({ audio }));
}
