import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, query } from "lit/decorators.js";
import { live } from "lit/directives/live.js";
import { formatClock, formatNumber } from "../i18n/format.ts";
import { defineStrings } from "../i18n/language.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import { RATES, type ReplayPlayer, type ReplayState } from "./replay-player.ts";
import "./player-controls.css";

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
        ?disabled=${broken}
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
      <output class="small soft number"></output>
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
