import type { AudioDesk } from "../audio/audio-desk.ts";
import { StereoRecorder } from "../audio/stereo-recorder.ts";
import { VideoRecorder } from "../audio/video-recorder.ts";

/** What was recorded in this browser. */
export interface Takes {
  /** A stereo WAV: the user left, the model right. */
  readonly sound: Blob | null;
  /** The picture with both voices. */
  readonly film: Blob | null;
}

export const NO_TAKES: Takes = { sound: null, film: null };

export interface KeepsakePlan {
  readonly sound: boolean;
  readonly film: boolean;
  readonly picture: () => HTMLVideoElement | undefined;
  readonly caption: () => string;
}

/** Records a call as it is heard and seen, from `go` on and not while it rests. */
export class Keepsake {
  readonly #plan: KeepsakePlan;
  readonly #desk: AudioDesk;
  readonly #sound = new StereoRecorder();
  #film: VideoRecorder | null = null;
  #running = false;

  constructor(desk: AudioDesk, plan: KeepsakePlan) {
    this.#desk = desk;
    this.#plan = plan;
    if (!plan.sound) return;
    desk.on("userBlock", (block) => this.#running && this.#sound.pushUser(block));
    desk.on("modelBlock", (block) => this.#running && this.#sound.pushModel(block));
  }

  /** Begin, or go on after a rest. */
  go(): void {
    if (this.#running) return;
    this.#running = true;
    if (this.#film) this.#film.resting = false;
    else if (this.#plan.film && VideoRecorder.supported) this.#film = this.#record();
  }

  rest(): void {
    this.#running = false;
    if (this.#film) this.#film.resting = true;
  }

  /** Call it before the desk is closed, or at the same time. */
  async finish(): Promise<Takes> {
    this.#running = false;
    const film = (await this.#film?.stop()) ?? null;
    return { sound: this.#sound.seconds > 0 ? this.#sound.blob() : null, film };
  }

  #record(): VideoRecorder {
    const { speaker, capture } = this.#desk;
    return new VideoRecorder({
      picture: this.#plan.picture,
      caption: this.#plan.caption,
      context: speaker.context,
      model: speaker.strip.node,
      user: capture.stream,
    });
  }
}
