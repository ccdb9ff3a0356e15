import type { AudioEngine } from "../audio/audio-engine.ts";
import { StereoRecorder } from "../audio/stereo-recorder.ts";
import { VideoRecorder } from "../audio/video-recorder.ts";
import { RecordingKeeper } from "../storage/kept-recordings.ts";

/** Recordings made in this browser. */
export interface CallRecordings {
  /** Stereo WAV: user left, model right. */
  readonly audio: Blob | null;
  /** Video with both voices. */
  readonly video: Blob | null;
}

export const NO_CALL_RECORDINGS: CallRecordings = { audio: null, video: null };

export interface CallRecorderOptions {
  /** The id of the session. */
  readonly conversation: string;
  readonly audio: boolean;
  readonly video: boolean;
  readonly videoElement: () => HTMLVideoElement | undefined;
  readonly caption: () => string;
}

/** Records a call in the browser, except during pauses. The browser keeps it until it is saved. */
export class CallRecorder {
  readonly #options: CallRecorderOptions;
  readonly #engine: AudioEngine;
  readonly #stereo = new StereoRecorder((part) => this.#kept("audio/wav").push(part));
  readonly #keepers = new Map<string, RecordingKeeper>();
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
    const audio = this.#stereo.seconds > 0 ? this.#stereo.blob() : null;
    for (const whole of [audio, video]) {
      if (whole) await this.#keepers.get(whole.type)?.finish(whole);
    }
    return { audio, video };
  }

  /** The page no longer offers the recordings of this call. */
  release(): void {
    for (const keeper of this.#keepers.values()) keeper.release();
  }

  #kept(type: string): RecordingKeeper {
    const keeper = this.#keepers.get(type) ?? new RecordingKeeper(type, this.#options.conversation);
    this.#keepers.set(type, keeper);
    return keeper;
  }

  #record(): VideoRecorder {
    const { speaker, capture } = this.#engine;
    const video: VideoRecorder = new VideoRecorder({
      onPart: (part) => this.#kept(video.type).push(part),
      videoElement: this.#options.videoElement,
      caption: this.#options.caption,
      context: speaker.context,
      model: speaker.channel.node,
      user: capture.stream,
    });
    return video;
  }
}
