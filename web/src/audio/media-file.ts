import type { AudioSource } from "./audio-source.ts";

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

  get durationS(): number {
    return this.element.duration;
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
