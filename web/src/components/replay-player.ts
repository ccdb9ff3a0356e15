import { Store } from "../state/store.ts";

export const RATES = [0.5, 0.75, 1, 1.25, 1.5, 2] as const;

export interface ReplayState {
  readonly playing: boolean;
  readonly rate: number;
  /** The browser cannot play the file. */
  readonly broken: boolean;
}

/**
 * Playback position and state. Without a media file only the position exists. If the media element
 * or its source is replaced, playback continues at the same position.
 */
export class ReplayPlayer {
  /** Milliseconds. */
  readonly at = new Store(0);
  readonly state = new Store<ReplayState>({ playing: false, rate: 1, broken: false });
  #media: HTMLMediaElement | null = null;
  #lengthMs: number;
  #frame = 0;
  /** The source was replaced during playback. */
  #continues = false;

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs;
  }

  get lengthMs(): number {
    return this.#lengthMs;
  }

  /** The media element. Null when it is removed. */
  attach(media: HTMLMediaElement | null): void {
    if (media === this.#media) return;
    this.#onNewSource();
    this.#patch({ playing: false });
    this.#media = media;
    if (media === null) return;
    media.preservesPitch = true;
    media.onplay = () => this.#changed();
    media.onpause = () => this.#changed();
    media.onended = () => this.#changed();
    media.onseeked = () => this.#updatePosition();
    media.onerror = () => {
      this.#continues = false;
      this.#patch({ broken: true, playing: false });
    };
    media.onemptied = () => this.#onNewSource();
    media.onloadedmetadata = () => this.#restore(media);
  }

  /** Never throws. A file that the browser cannot play sets `broken`. */
  toggle(): void {
    const media = this.#media;
    if (media === null || this.state.value.broken) return;
    // Not by `media.paused`, which is true while another source loads.
    if (this.state.value.playing || this.#continues) this.pause();
    else this.#play(media);
  }

  pause(): void {
    this.#continues = false;
    this.#media?.pause();
    this.#patch({ playing: false });
  }

  seek(toMs: number): void {
    const atMs = Math.min(Math.max(0, toMs), this.#lengthMs);
    this.at.set(atMs);
    if (this.#media) this.#media.currentTime = atMs / 1000;
  }

  setRate(rate: number): void {
    if (this.#media) this.#media.playbackRate = rate;
    this.#patch({ rate });
  }

  /** Another source may have another length. */
  resize(lengthMs: number): void {
    if (lengthMs === this.#lengthMs) return;
    this.#lengthMs = lengthMs;
    this.#patch({}); // the controls show the length
  }

  /** The file may be slightly longer than its metadata says. */
  reach(lengthMs: number): void {
    this.resize(Math.max(this.#lengthMs, lengthMs));
  }

  #onNewSource(): void {
    this.#continues ||= this.state.value.playing;
    cancelAnimationFrame(this.#frame);
  }

  #restore(media: HTMLMediaElement): void {
    this.#patch({ broken: false });
    media.playbackRate = this.state.value.rate;
    if (this.at.value > 0) media.currentTime = this.at.value / 1000;
    if (this.#continues) this.#play(media);
    this.#continues = false;
  }

  #play(media: HTMLMediaElement): void {
    if (this.at.value >= this.#lengthMs - 50) this.seek(0);
    media.play().catch((error: unknown) => {
      const isAborted = error instanceof DOMException && error.name === "AbortError";
      if (!isAborted) this.#patch({ broken: true, playing: false });
    });
  }

  #changed(): void {
    const playing = this.#media !== null && !this.#media.paused && !this.#media.ended;
    this.#patch({ playing });
    cancelAnimationFrame(this.#frame);
    if (playing) this.#followMedia();
    else this.#updatePosition();
  }

  #followMedia(): void {
    this.#updatePosition();
    this.#frame = requestAnimationFrame(() => this.#followMedia());
  }

  #updatePosition(): void {
    const media = this.#media;
    if (media && media.readyState > 0 && !media.seeking) this.at.set(media.currentTime * 1000);
  }

  #patch(change: Partial<ReplayState>): void {
    this.state.set({ ...this.state.value, ...change });
  }
}
