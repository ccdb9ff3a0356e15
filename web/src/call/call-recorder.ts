import type { AudioEngine } from "../audio/audio-engine.ts";
import { StereoRecorder } from "../audio/stereo-recorder.ts";
import { VideoRecorder } from "../audio/video-recorder.ts";

/** Recordings made in this browser. */
export interface CallRecordings {
  /** Stereo WAV: user left, model right. */
  readonly audio: Blob | null;
  /** Video with both voices. */
  readonly video: Blob | null;
}

export const NO_CALL_RECORDINGS: CallRecordings = { audio: null, video: null };

export interface CallRecorderOptions {
  readonly audio: boolean;
  readonly video: boolean;
  readonly videoElement: () => HTMLVideoElement | undefined;
  readonly caption: () => string;
}

/** Records a call in the browser, except during pauses. */
export class CallRecorder {
  readonly #options: CallRecorderOptions;
  readonly #engine: AudioEngine;
  readonly #stereo = new StereoRecorder();
  #video: VideoRecorder | null = null;
  #running = false;

  constructor(engine: AudioEngine, options: CallRecorderOptions) {
    this.#engine = engine;
    this.#options = options;
    if (!options.audio) return;
    engine.on("userBlock", (block) => this.#running && this.#stereo.pushUser(block));
    engine.on("modelBlock", (block) => this.#running && this.#stereo.pushModel(block));
  }

  /** Starts or resumes recording. */
  start(): void {
    if (this.#running) return;
    this.#running = true;
    if (this.#video) this.#video.paused = false;
    else if (this.#options.video && VideoRecorder.supported) this.#video = this.#record();
  }

  pause(): void {
    this.#running = false;
    if (this.#video) this.#video.paused = true;
  }

  /** Call it before the audio engine closes, or at the same time. */
  async finish(): Promise<CallRecordings> {
    this.#running = false;
    const video = (await this.#video?.stop()) ?? null;
    return { audio: this.#stereo.seconds > 0 ? this.#stereo.blob() : null, video };
  }

  #record(): VideoRecorder {
    const { speaker, capture } = this.#engine;
    return new VideoRecorder({
      videoElement: this.#options.videoElement,
      caption: this.#options.caption,
      context: speaker.context,
      model: speaker.channel.node,
      user: capture.stream,
    });
  }
}
