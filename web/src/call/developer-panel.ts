import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import type { AudioEngine } from "../audio/audio-engine.ts";
import { applyMixer, mixer } from "../audio/audio-settings.ts";
import { type Loudness, SILENCE } from "../audio/mixer-channel.ts";
import { defineStrings, formatDuration, formatNumber, formatSeconds } from "../i18n/language.ts";
import type { DuplexMetrics } from "../session/metrics.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { loudnessShare, meter, slider, toggle } from "../ui/controls.ts";
import type { CallView } from "./call-actions.ts";
import type { EventLog, LoggedEvent } from "./call-log.ts";
import { metricsStrings } from "./metrics-strings.ts";
import { callStrings } from "./strings.ts";
import "./panel.css";

const WIDE = matchMedia("(min-width: 60rem)");

/** Metrics of a call as numbers and charts. The charts load when they are opened. */
export function metricsPanel({ call, state, tab }: CallView): TemplateResult {
  const t = metricsStrings();
  const { metrics } = state.sessionState;
  if (metrics.units === 0) return html`<p class="small soft empty">${t.none}</p>`;
  return html`<div class="stack loose">
    <dl class="facts">${figures(metrics)}</dl>
    <details
      class="fold"
      ?open=${WIDE.matches && tab === "metrics"}
      @toggle=${({ target }: Event) => (target as HTMLDetailsElement).open && loadCharts()}
    >
      <summary>${t.charts}</summary>
      <an-metrics-charts .columns=${call.history.columns} .units=${metrics.units} .strings=${metricsStrings}>
        <p class="small soft">${t.loading}</p>
      </an-metrics-charts>
    </details>
  </div>`;
}

function figures(metrics: DuplexMetrics): TemplateResult[] {
  const t = metricsStrings();
  const { unit, firstAudioMs, firstAudioMedianMs, gaps, gapMs } = metrics;
  const median = firstAudioMedianMs === null ? "" : t.median(formatDuration(firstAudioMedianMs));
  return [
    figure(t.latency, t.latencyHint, length(unit?.latencyMs ?? null)),
    figure(t.firstAudio, t.firstAudioHint, length(firstAudioMs), median),
    figure(t.drift, t.driftHint, length(unit?.driftMs ?? null)),
    figure(t.gaps, t.gapsHint, t.gapCount(gaps, formatDuration(gapMs))),
    figure(t.context, t.contextHint, formatNumber(unit?.kvLength ?? 0)),
    figure(t.cost, t.costHint, length(unit?.costMs ?? null)),
    figure(t.delay, "", length(metrics.delayMs)),
    figure(t.ahead, "", length(metrics.aheadMs)),
    figure(t.clock, "", length(metrics.captureDriftMs)),
    figure(t.units, "", formatNumber(metrics.units)),
  ];
}

/** A figure in `dl.facts`, with a second one below it. */
export function figure(name: string, hint: string, value: string, more = ""): TemplateResult {
  return html`<div title=${hint}>
    <dt>${name}</dt>
    <dd>${value}${more === "" ? nothing : html`<span class="tiny soft more">${more}</span>`}</dd>
  </div>`;
}

function length(ms: number | null): string {
  return ms === null ? "–" : formatDuration(Math.round(ms));
}

function loadCharts(): void {
  void import("./metrics-charts.ts");
}

const audioMixerStrings = defineStrings(
  {
    you: "Your voice",
    model: "Model voice",
    level: (side: string) => `Level: ${side}`,
    momentary: "now",
    integrated: "average",
    lufs: (value: string) => `${value} LUFS`,
    silent: "silent",
    volume: "Volume",
    decibels: (value: string) => `${value} dB`,
    auto: "Automatic gain",
    autoNow: (gain: string) => `Adjusts speech to -23 LUFS. Currently ${gain}.`,
    autoHint: "Adjusts speech to -23 LUFS.",
    quiet: "Mute speaker",
    loopback: "Playback uses a path that your browser's echo canceller can process.",
    noLoopback: "Your browser's echo canceller cannot process the playback. Use headphones.",
  },
  {
    you: "您的声音",
    model: "模型的声音",
    level: (side) => `音量：${side}`,
    momentary: "当前",
    integrated: "平均",
    lufs: (value) => `${value} LUFS`,
    silent: "静音",
    volume: "音量",
    decibels: (value) => `${value} dB`,
    auto: "自动增益",
    autoNow: (gain) => `将语音调整到 -23 LUFS，当前 ${gain}。`,
    autoHint: "将语音调整到 -23 LUFS。",
    quiet: "扬声器静音",
    loopback: "播放经过浏览器回声消除可处理的路径。",
    noLoopback: "浏览器的回声消除无法处理播放的声音，请使用耳机。",
  },
);

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

/** The messages of a call, the newest first. */
@customElement("an-event-list")
export class EventList extends BaseElement {
  #events: StoreController<readonly LoggedEvent[]> | undefined;

  /** Set once. */
  @property({ attribute: false }) log!: EventLog;

  protected override willUpdate(): void {
    this.#events ??= new StoreController(this, this.log);
  }

  protected override render(): TemplateResult {
    const events = this.#events?.value ?? [];
    if (events.length === 0) return html`<p class="small soft empty">${callStrings().noEvents}</p>`;
    return html`<ol role="list">
      ${repeat(events, ({ id }) => id, row)}
    </ol>`;
  }
}

function row({ at, sent, type, text }: LoggedEvent): TemplateResult {
  const t = callStrings();
  return html`<li class="tiny">
    <span class="number soft">${formatSeconds(at)}</span>
    <span aria-label=${sent ? t.sent : t.received} role="img">${sent ? "→" : "←"}</span>
    <strong>${type}</strong> <code class="soft">${text}</code>
  </li>`;
}
