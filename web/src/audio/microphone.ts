import type { AudioSource } from "./audio-source.ts";

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
