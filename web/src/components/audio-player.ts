import { html, svg, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { live } from "lit/directives/live.js";
import { INPUT_RATE, type Samples } from "../audio/pcm.ts";
import { peaksOf } from "../audio/waveform.ts";
import { common } from "../i18n/common.ts";
import { formatClock } from "../i18n/language.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { type AudioPlayback, playAudio } from "./audio-playback.ts";
import "./components.css";

const BARS = 48;
const STEP = 4;
const HALF = 14;

/** Audio player with play, pause and a waveform for seeking. */
@customElement("an-audio-player")
export class AudioPlayer extends BaseElement {
  #playing: AudioPlayback | null = null;
  #peaks: readonly number[] = [];
  #frame = 0;

  @property({ attribute: false }) samples: Samples = new Float32Array(0);
  @property({ type: Number }) rate = INPUT_RATE;
  /** The label for screen readers. */
  @property() label = "";
  @property({ type: Boolean }) disabled = false;

  @state() private atS = 0;

  override disconnectedCallback(): void {
    this.#playing?.stop();
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (changed.has("samples")) this.#peaks = peaksOf(this.samples, BARS);
    if (this.disabled) this.#playing?.stop();
  }

  protected override render(): TemplateResult {
    const { player } = common();
    const plays = this.#playing !== null;
    return html`<button
        class="button square small"
        type="button"
        ${inactive(this.disabled)}
        aria-label=${plays ? player.pause(this.label) : player.play(this.label)}
        @click=${() => (plays ? this.#playing?.stop() : this.#play())}
      >
        ${icon(plays ? "pause" : "play")}
      </button>
      <span class="shape">
        ${this.#shape()}
        <input
          type="range"
          min="0"
          max=${this.#lengthS}
          step="0.01"
          ?disabled=${this.disabled}
          aria-label=${player.position(this.label)}
          aria-valuetext=${formatClock(this.atS)}
          .value=${live(String(this.atS))}
          @input=${(event: Event) => this.#seek((event.target as HTMLInputElement).valueAsNumber)}
        />
      </span>
      <span class="tiny soft number">${formatClock(plays || this.atS > 0 ? this.atS : Math.max(1, this.#lengthS))}</span>`;
  }

  #shape(): TemplateResult {
    const played = (this.atS / this.#lengthS) * BARS;
    return html`<svg viewBox="0 0 ${BARS * STEP} ${2 * HALF}" preserveAspectRatio="none" aria-hidden="true">
      ${this.#peaks.map((peak, i) => {
        const x = (i + 0.5) * STEP;
        const half = Math.max(1, peak * (HALF - 1));
        return svg`<line class=${i < played ? "played" : ""} x1=${x} x2=${x} y1=${HALF - half} y2=${HALF + half} />`;
      })}
    </svg>`;
  }

  get #lengthS(): number {
    return Math.max(0.01, this.samples.length / this.rate);
  }

  #play(): void {
    const fromS = this.atS < this.#lengthS - 0.05 ? this.atS : 0;
    this.#playing = playAudio(this.samples, this.rate, fromS, () => this.#stopped());
    this.#follow();
  }

  #seek(toS: number): void {
    const wasPlaying = this.#playing !== null;
    this.#playing?.stop();
    this.atS = toS;
    if (wasPlaying) this.#play();
  }

  #stopped(): void {
    cancelAnimationFrame(this.#frame);
    this.#playing = null;
    if (this.atS > this.#lengthS - 0.1) this.atS = 0;
    this.requestUpdate();
  }

  #follow(): void {
    if (this.#playing === null) return;
    this.atS = Math.min(this.#playing.atS, this.#lengthS);
    this.#frame = requestAnimationFrame(() => this.#follow());
  }
}
