import { html, type TemplateResult } from "lit";
import { customElement, property, query } from "lit/decorators.js";
import { live } from "lit/directives/live.js";
import { clock, number } from "../../i18n/format.ts";
import { Watch } from "../../state/store.ts";
import { Element } from "../../ui/element.ts";
import { icon } from "../../ui/icon.ts";
import { RATES, type Replay, type ReplayState } from "./replay.ts";
import { words } from "./words.ts";

/** The player's knobs: play, place, speed, turn by turn. */
@customElement("an-transport")
export class Transport extends Element {
  #leave: () => void = () => undefined;
  #state: Watch<ReplayState> | null = null;

  @property({ attribute: false }) replay!: Replay;
  /** Go to the turn before, or after. */
  @property({ attribute: false }) step: (by: -1 | 1) => void = () => undefined;

  @query("input") private readonly range!: HTMLInputElement;
  @query("output") private readonly time!: HTMLElement;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#state ??= new Watch(this, this.replay.state);
    this.#leave = this.replay.at.subscribe(() => this.#place());
  }

  override disconnectedCallback(): void {
    this.#leave();
    super.disconnectedCallback();
  }

  protected override updated(): void {
    this.#place();
  }

  protected override render(): TemplateResult {
    const say = words().player;
    const { plays, broken } = this.#state?.value ?? this.replay.state.value;
    return html`<button
        class="button primary square large"
        aria-label=${plays ? say.pause : say.play}
        title=${say.keys}
        ?disabled=${broken}
        @click=${() => this.replay.toggle()}
      >
        ${icon(plays ? "pause" : "play")}
      </button>
      <button class="button quiet square back" aria-label=${say.previous} title=${say.previous} @click=${() => this.step(-1)}>
        ${icon("chevron")}
      </button>
      <button class="button quiet square on" aria-label=${say.next} title=${say.next} @click=${() => this.step(1)}>
        ${icon("chevron")}
      </button>
      <input
        class="grow"
        type="range"
        min="0"
        max=${this.replay.lengthMs}
        step="10"
        aria-label=${say.position}
        @input=${() => this.replay.seek(this.range.valueAsNumber)}
      />
      <output class="small soft number"></output>
      ${this.#speed()}`;
  }

  #speed(): TemplateResult {
    const say = words().player;
    const rate = this.#state?.value.rate ?? 1;
    return html`<select
      class="input speed"
      aria-label=${say.speed}
      @change=${(event: Event) => this.replay.setRate(Number((event.target as HTMLSelectElement).value))}
    >
      ${RATES.map(
        (one) =>
          html`<option value=${one} .selected=${live(one === rate)}>${say.times(number(one, 2))}</option>`,
      )}
    </select>`;
  }

  /** As often as the screen is drawn: past the rendering. */
  #place(): void {
    if (!this.hasUpdated) return;
    const now = clock(this.replay.at.value / 1000);
    const whole = clock(this.replay.lengthMs / 1000);
    this.range.value = String(this.replay.at.value);
    if (this.time.dataset["now"] === now && this.time.dataset["whole"] === whole) return;
    Object.assign(this.time.dataset, { now, whole });
    this.time.textContent = `${now} / ${whole}`;
    this.range.setAttribute("aria-valuetext", words().player.of(now, whole));
  }
}
