import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import type { AudioDesk } from "../audio/audio-desk.ts";
import { type Loudness, SILENCE } from "../audio/loudness.ts";
import { number } from "../i18n/format.ts";
import { Watch } from "../state/store.ts";
import { meter, slider, toggle } from "../ui/controls.ts";
import { type Changed, Element } from "../ui/element.ts";
import { applyMixer, mixer } from "./mixer-settings.ts";
import { loudnessShare } from "./orb-shape.ts";
import { mixerWords as words } from "./sound-mixer-words.ts";
import "./sound-mixer.css";

const HOT_DB = -1;

/** Both sides of a conversation: how loud they are and shall be. Without a desk the meters rest. */
@customElement("an-sound-mixer")
export class SoundMixer extends Element {
  readonly #mixer = new Watch(this, mixer);
  #leave: () => void = () => undefined;

  @property({ attribute: false }) desk: AudioDesk | undefined;

  @state() private user: Loudness = SILENCE;
  @state() private model: Loudness = SILENCE;

  override disconnectedCallback(): void {
    this.#leave();
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: Changed<this>): void {
    if (!changed.has("desk")) return;
    this.#leave();
    this.user = this.model = SILENCE;
    const leave = this.desk?.on("levels", ({ user, model }) => {
      [this.user, this.model] = [user, model];
    });
    this.#leave = leave ?? (() => undefined);
  }

  protected override render(): TemplateResult {
    const say = words();
    const { userDb, modelDb, userAuto, modelAuto } = this.#mixer.value;
    return html`<section class="side you">
        ${levels(say.you, this.user)}
        ${fader(userDb, (db) => this.#change({ userDb: db }))}
        ${this.#auto(userAuto, this.desk?.capture.strip.autoGainDb, (on) => this.#change({ userAuto: on }))}
      </section>
      <section class="side they">
        ${levels(say.model, this.model)}
        ${fader(modelDb, (db) => this.#change({ modelDb: db }))}
        ${this.#auto(modelAuto, this.desk?.speaker.strip.autoGainDb, (on) => this.#change({ modelAuto: on }))}
        ${this.#speaker()}
      </section>`;
  }

  #auto(on: boolean, gainDb: number | undefined, onChange: (on: boolean) => void): TemplateResult {
    const say = words();
    const hint = on && gainDb !== undefined ? say.autoNow(decibels(gainDb)) : say.autoHint;
    return toggle({ label: say.auto, hint, checked: on, onChange });
  }

  /** Not kept: a call that begins in silence would seem broken. */
  #speaker(): TemplateResult | typeof nothing {
    const { desk } = this;
    if (!desk) return nothing;
    const say = words();
    const { strip, loopback, loopbackProblem } = desk.speaker;
    return html`${toggle({
      label: say.quiet,
      checked: strip.muted,
      onChange: (muted) => {
        strip.muted = muted;
        this.requestUpdate();
      },
    })}
    ${loopback ? html`<p class="tiny soft">${say.loopback}</p>` : nothing}
    ${loopbackProblem === undefined ? nothing : html`<p class="tiny soft" title=${loopbackProblem}>${say.noLoopback}</p>`}`;
  }

  #change(change: Parameters<typeof mixer.update>[0]): void {
    mixer.update(change);
    if (this.desk) applyMixer(this.desk);
  }
}

function levels(side: string, { momentary, integrated, peak }: Loudness): TemplateResult {
  const say = words();
  return html`<h3>${side}</h3>
    ${meter(say.level(side), loudnessShare(peak), peak > HOT_DB)}
    <p class="row apart tiny soft number">
      <span>${say.momentary} ${lufs(momentary)}</span><span>${say.integrated} ${lufs(integrated)}</span>
    </p>`;
}

function fader(db: number, onInput: (db: number) => void): TemplateResult {
  return slider({
    label: words().volume,
    value: db,
    min: -24,
    max: 12,
    step: 1,
    format: decibels,
    onInput,
  });
}

function lufs(value: number): string {
  const say = words();
  return Number.isFinite(value) && value > -70 ? say.lufs(number(value, 0)) : say.silent;
}

function decibels(value: number): string {
  const rounded = Math.round(value);
  return words().decibels(`${rounded > 0 ? "+" : ""}${number(rounded)}`);
}
