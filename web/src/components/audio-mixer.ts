import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import type { AudioEngine } from "../audio/audio-engine.ts";
import { type Loudness, SILENCE } from "../audio/loudness.ts";
import { formatNumber } from "../i18n/format.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { meter, slider, toggle } from "../ui/controls.ts";
import { audioMixerStrings } from "./audio-mixer-strings.ts";
import { applyMixer, mixer } from "./mixer-settings.ts";
import { loudnessShare } from "./orb-shape.ts";
import "./audio-mixer.css";

const HOT_DB = -1;

/**
 * Meters, volume and automatic gain of both sides. Without an audio engine the meters show
 * nothing.
 */
@customElement("an-audio-mixer")
export class AudioMixer extends BaseElement {
  readonly #mixer = new StoreController(this, mixer);
  #unsubscribe: () => void = () => undefined;

  @property({ attribute: false }) audio: AudioEngine | undefined;

  @state() private user: Loudness = SILENCE;
  @state() private model: Loudness = SILENCE;

  override disconnectedCallback(): void {
    this.#unsubscribe();
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (!changed.has("audio")) return;
    this.#unsubscribe();
    this.user = this.model = SILENCE;
    const leave = this.audio?.on("levels", ({ user, model }) => {
      [this.user, this.model] = [user, model];
    });
    this.#unsubscribe = leave ?? (() => undefined);
  }

  protected override render(): TemplateResult {
    const t = audioMixerStrings();
    const { userDb, modelDb, userAuto, modelAuto } = this.#mixer.value;
    return html`<section class="side user">
        ${levels(t.you, this.user)}
        ${fader(userDb, (db) => this.#change({ userDb: db }))}
        ${this.#auto(userAuto, this.audio?.capture.channel.autoGainDb, (on) => this.#change({ userAuto: on }))}
      </section>
      <section class="side model">
        ${levels(t.model, this.model)}
        ${fader(modelDb, (db) => this.#change({ modelDb: db }))}
        ${this.#auto(modelAuto, this.audio?.speaker.channel.autoGainDb, (on) => this.#change({ modelAuto: on }))}
        ${this.#speaker()}
      </section>`;
  }

  #auto(on: boolean, gainDb: number | undefined, onChange: (on: boolean) => void): TemplateResult {
    const t = audioMixerStrings();
    const hint = on && gainDb !== undefined ? t.autoNow(decibels(gainDb)) : t.autoHint;
    return toggle({ label: t.auto, hint, checked: on, onChange });
  }

  /** Not stored: a call that starts without sound would seem broken. */
  #speaker(): TemplateResult | typeof nothing {
    const { audio } = this;
    if (!audio) return nothing;
    const t = audioMixerStrings();
    const { channel, loopback, loopbackProblem } = audio.speaker;
    return html`${toggle({
      label: t.quiet,
      checked: channel.muted,
      onChange: (muted) => {
        channel.muted = muted;
        this.requestUpdate();
      },
    })}
    ${loopback ? html`<p class="tiny soft">${t.loopback}</p>` : nothing}
    ${loopbackProblem === undefined ? nothing : html`<p class="tiny soft" title=${loopbackProblem}>${t.noLoopback}</p>`}`;
  }

  #change(change: Parameters<typeof mixer.update>[0]): void {
    mixer.update(change);
    if (this.audio) applyMixer(this.audio);
  }
}

function levels(side: string, { momentary, integrated, peak }: Loudness): TemplateResult {
  const t = audioMixerStrings();
  return html`<h3>${side}</h3>
    ${meter(t.level(side), loudnessShare(peak), peak > HOT_DB)}
    <p class="row apart tiny soft number">
      <span>${t.momentary} ${lufs(momentary)}</span><span>${t.integrated} ${lufs(integrated)}</span>
    </p>`;
}

function fader(db: number, onInput: (db: number) => void): TemplateResult {
  return slider({
    label: audioMixerStrings().volume,
    value: db,
    min: -24,
    max: 12,
    step: 1,
    format: decibels,
    onInput,
  });
}

function lufs(value: number): string {
  const t = audioMixerStrings();
  return Number.isFinite(value) && value > -70 ? t.lufs(formatNumber(value, 0)) : t.silent;
}

function decibels(value: number): string {
  const rounded = Math.round(value);
  return audioMixerStrings().decibels(`${rounded > 0 ? "+" : ""}${formatNumber(rounded)}`);
}
