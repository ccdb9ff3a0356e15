import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, query } from "lit/decorators.js";
import { live } from "lit/directives/live.js";
import { defineStrings, formatClock, formatNumber } from "../i18n/language.ts";
import { Store, StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import "./recordings.css";

const RATES = [0.5, 0.75, 1, 1.25, 1.5, 2] as const;

export interface ReplayState {
  readonly playing: boolean;
  readonly rate: number;
  /** The browser cannot play the file. */
  readonly broken: boolean;
}

/**
 * Playback position and state. Without a media file only the position exists. If the media element
 * or its source is replaced, playback continues at the same position. An element with
 * `preload="none"` loads its file when the user plays or seeks, and for a position in the address.
 */
export class ReplayPlayer {
  /** Milliseconds. */
  readonly at = new Store(0);
  readonly state = new Store<ReplayState>({ playing: false, rate: 1, broken: false });
  #isWanted = false;
  #onWanted: (() => void)[] = [];
  #media: HTMLMediaElement | null = null;
  #lengthMs: number;
  #frame = 0;
  /** Plays as soon as the element has a source: it was replaced, or the user pressed play before. */
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
    this.#patch({ playing: media !== null && this.#continues });
    this.#media = media;
    if (media === null) return;
    if (this.#continues || this.#isWanted) this.#want();
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

  /** Resolves when the file is needed: the user plays or seeks, or the address has a position. */
  async untilWanted(): Promise<void> {
    if (!this.#isWanted) await new Promise<void>((resolve) => this.#onWanted.push(resolve));
  }

  /** The file could not be fetched. The next press on play wants it again. */
  fetchFailed(): void {
    this.#isWanted = false;
    this.pause();
  }

  pause(): void {
    this.#continues = false;
    this.#media?.pause();
    this.#patch({ playing: false });
  }

  seek(toMs: number): void {
    this.#want();
    this.cue(toMs);
  }

  /** Sets the position from which the user will play. Unlike `seek` it loads nothing. */
  cue(toMs: number): void {
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
    this.#want();
    if (this.at.value >= this.#lengthMs - 50) this.seek(0);
    if (!media.hasAttribute("src")) {
      this.#continues = true;
      this.#patch({ playing: true });
      return;
    }
    media.play().catch((error: unknown) => {
      const name = error instanceof DOMException ? error.name : "";
      if (name === "AbortError") return; // another source, or a pause
      // Without a recent press some browsers refuse to play: the next press plays.
      this.#patch({ broken: name !== "NotAllowedError", playing: false });
    });
  }

  /** Starts to load a file with `preload="none"`, and each that replaces it. */
  #want(): void {
    this.#isWanted = true;
    for (const resolve of this.#onWanted.splice(0)) resolve();
    if (this.#media?.preload === "none") this.#media.preload = "auto";
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

export const playerControlsStrings = defineStrings(
  {
    label: "Player",
    play: "Play",
    pause: "Pause",
    position: "Position",
    speed: "Speed",
    times: (rate: string) => `${rate}×`,
    previous: "Previous turn",
    next: "Next turn",
    of: (now: string, whole: string) => `${now} of ${whole}`,
    keys: "Space: play or pause. Left and right: seek. Up and down: previous and next turn.",
  },
  {
    label: "播放器",
    play: "播放",
    pause: "暂停",
    position: "播放位置",
    speed: "速度",
    times: (rate) => `${rate}×`,
    previous: "上一轮",
    next: "下一轮",
    of: (now, whole) => `${now}，共 ${whole}`,
    keys: "空格键：播放或暂停。左右键：定位。上下键：切换轮次。",
  },
);

/** Playback controls: play, position, speed, previous and next turn. */
@customElement("an-player-controls")
export class PlayerControls extends BaseElement {
  #unsubscribe: () => void = () => undefined;
  #state: StoreController<ReplayState> | null = null;

  @property({ attribute: false }) replay!: ReplayPlayer;
  /** Goes to the previous or next turn. Without it there are no buttons for turns. */
  @property({ attribute: false }) step: ((by: -1 | 1) => void) | null = null;

  @query("input") private readonly range!: HTMLInputElement;
  @query("output") private readonly time!: HTMLElement;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#state ??= new StoreController(this, this.replay.state);
    this.#unsubscribe = this.replay.at.subscribe(() => this.#place());
  }

  override disconnectedCallback(): void {
    this.#unsubscribe();
    super.disconnectedCallback();
  }

  protected override updated(): void {
    this.#place();
  }

  protected override render(): TemplateResult {
    const { step } = this;
    const t = playerControlsStrings();
    const { playing, broken } = this.#state?.value ?? this.replay.state.value;
    return html`<button
        class="button primary square large"
        aria-label=${playing ? t.pause : t.play}
        title=${t.keys}
        ${inactive(broken)}
        @click=${() => this.replay.toggle()}
      >
        ${icon(playing ? "pause" : "play")}
      </button>
      ${step ? this.#stepButton("back", t.previous, () => step(-1)) : nothing}
      ${step ? this.#stepButton("on", t.next, () => step(1)) : nothing}
      <input
        class="grow"
        type="range"
        min="0"
        max=${this.replay.lengthMs}
        step="10"
        aria-label=${t.position}
        @input=${() => this.replay.seek(this.range.valueAsNumber)}
      />
      <output class="small soft number" translate="no"></output>
      ${this.#speed()}`;
  }

  #stepButton(style: "back" | "on", label: string, run: () => void): TemplateResult {
    return html`<button class="button quiet square ${style}" aria-label=${label} title=${label} @click=${run}>
      ${icon("chevron")}
    </button>`;
  }

  #speed(): TemplateResult {
    const t = playerControlsStrings();
    const rate = this.#state?.value.rate ?? 1;
    return html`<select
      class="input speed"
      aria-label=${t.speed}
      @change=${(event: Event) => this.replay.setRate(Number((event.target as HTMLSelectElement).value))}
    >
      ${RATES.map(
        (one) =>
          html`<option value=${one} .selected=${live(one === rate)}>${t.times(formatNumber(one, 2))}</option>`,
      )}
    </select>`;
  }

  /** Updated with every animation frame, without rendering. */
  #place(): void {
    if (!this.hasUpdated) return;
    const now = formatClock(this.replay.at.value / 1000);
    const whole = formatClock(this.replay.lengthMs / 1000);
    this.range.value = String(this.replay.at.value);
    if (this.time.dataset["now"] === now && this.time.dataset["whole"] === whole) return;
    Object.assign(this.time.dataset, { now, whole });
    this.time.textContent = `${now} / ${whole}`;
    this.range.setAttribute("aria-valuetext", playerControlsStrings().of(now, whole));
  }
}
