import type { AudioEngine } from "../audio/audio-engine.ts";
import { StereoRecorder } from "../audio/stereo-recorder.ts";
import { VideoRecorder } from "../audio/video-recorder.ts";

/** Recordings made in this browser. */
export interface CallRecordings {
  /** Stereo WAV: user left, model right. */
  readonly sound: Blob | null;
  /** Video with both voices. */
  readonly video: Blob | null;
}

export const NO_CALL_RECORDINGS: CallRecordings = { sound: null, video: null };

export interface CallRecorderOptions {
  readonly sound: boolean;
  readonly video: boolean;
  readonly videoElement: () => HTMLVideoElement | undefined;
  readonly caption: () => string;
}

/** Records a call in the browser, except during pauses. */
export class CallRecorder {
  readonly #plan: CallRecorderOptions;
  readonly #audio: AudioEngine;
  readonly #sound = new StereoRecorder();
  #video: VideoRecorder | null = null;
  #running = false;

  constructor(audio: AudioEngine, plan: CallRecorderOptions) {
    this.#audio = audio;
    this.#plan = plan;
    if (!plan.sound) return;
    audio.on("userBlock", (block) => this.#running && this.#sound.pushUser(block));
    audio.on("modelBlock", (block) => this.#running && this.#sound.pushModel(block));
  }

  /** Starts or resumes recording. */
  go(): void {
    if (this.#running) return;
    this.#running = true;
    if (this.#video) this.#video.paused = false;
    else if (this.#plan.video && VideoRecorder.supported) this.#video = this.#record();
  }

  rest(): void {
    this.#running = false;
    if (this.#video) this.#video.paused = true;
  }

  /** Call it before the audio engine closes, or at the same time. */
  async finish(): Promise<CallRecordings> {
    this.#running = false;
    const video = (await this.#video?.stop()) ?? null;
    return { sound: this.#sound.seconds > 0 ? this.#sound.blob() : null, video };
  }

  #record(): VideoRecorder {
    const { speaker, capture } = this.#audio;
    return new VideoRecorder({
      videoElement: this.#plan.videoElement,
      caption: this.#plan.caption,
      context: speaker.context,
      model: speaker.channel.node,
      user: capture.stream,
    });
  }
}
