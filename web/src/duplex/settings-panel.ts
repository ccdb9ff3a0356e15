import { html, nothing, type TemplateResult } from "lit";
import "../components/preset-selector.ts";
import "../components/voice-picker.ts";
import type { Preset } from "../api/catalog.ts";
import type { VoiceChoice } from "../components/voice-shelf.ts";
import { duration, number } from "../i18n/format.ts";
import { segmented, slider, textArea, toggle } from "../ui/controls.ts";
import { adoptPreset, suggestedDelayMs } from "./call-presets.ts";
import type { CallValues } from "./call-settings.ts";
import { settingsWords as words } from "./settings-words.ts";
import { type CallView, isBusy } from "./view.ts";

type Change = (change: Partial<CallValues>) => void;

/** How the next call shall be. */
export function settingsPanel(view: CallView): TemplateResult {
  const { call, values, settings, state } = view;
  const change: Change = (some) => settings.update(some);
  return html`<div class="stack">
    ${isBusy(state) ? html`<p class="tiny soft">${words().nextCall}</p>` : nothing}
    <an-preset-selector
      .page=${call.kind === "omni" ? "omni" : "audio_duplex"}
      .chosen=${values.preset}
      @choose=${({ detail }: CustomEvent<Preset>) => adoptPreset(settings, detail)}
    ></an-preset-selector>
    ${textArea({
      label: words().prompt,
      value: values.prompt,
      rows: 5,
      longest: 8000,
      onInput: (prompt) => change({ prompt }),
    })}
    <an-voice-picker
      .value=${{ model: values.voice, speech: values.speech }}
      @change=${({ detail }: CustomEvent<VoiceChoice>) => change({ voice: detail.model, speech: detail.speech })}
    ></an-voice-picker>
    ${fold(words().talking, talking(values, change))}
    ${call.kind === "omni" ? fold(words().picture, picture(values, change)) : nothing}
    ${fold(words().keeping, keeping(view, change))}
    ${fold(words().generation, generation(values, change))} ${fold(words().keys, keys(view, change))}
  </div>`;
}

function fold(title: string, body: TemplateResult): TemplateResult {
  return html`<details class="fold">
    <summary>${title}</summary>
    <div class="stack">${body}</div>
  </details>`;
}

function talking({ bargeIn, delayMs }: CallValues, change: Change): TemplateResult {
  const say = words();
  const suggested = suggestedDelayMs.value;
  const isOwn = delayMs !== null;
  return html`${toggle({
    label: say.bargeIn,
    hint: say.bargeInHint,
    checked: bargeIn,
    onChange: (on) => change({ bargeIn: on }),
  })}
  ${slider({
    label: say.delay,
    hint: say.delayHint,
    value: delayMs ?? suggested,
    min: 0,
    max: 800,
    step: 20,
    format: (ms) => (isOwn ? duration(ms) : say.delayAutomatic(duration(ms))),
    onInput: (ms) => change({ delayMs: ms }),
  })}`;
}

function picture({ mirror, facing, slices }: CallValues, change: Change): TemplateResult {
  const say = words();
  return html`${segmented({
    name: "facing",
    label: say.facing,
    value: facing,
    options: [
      { value: "user", label: say.front },
      { value: "environment", label: say.back },
    ],
    onChange: (side) => change({ facing: side }),
  })}
  ${toggle({
    label: say.mirror,
    hint: say.mirrorHint,
    checked: mirror,
    onChange: (on) => change({ mirror: on }),
  })}
  ${slider({
    label: say.detail,
    hint: say.detailHint,
    value: slices,
    min: 1,
    max: 9,
    step: 1,
    format: say.pieces,
    onInput: (count) => change({ slices: count }),
  })}`;
}

function keeping({ call, values }: CallView, change: Change): TemplateResult {
  const say = words();
  const film = { value: "film", label: say.keepFilm } as const;
  return html`${toggle({
    label: say.record,
    hint: say.recordHint,
    checked: values.record,
    onChange: (record) => change({ record }),
  })}
  ${segmented<CallValues["keep"]>({
    name: "keep",
    label: say.keep,
    hint: say.keepHint,
    value: call.kind === "audio" && values.keep === "film" ? "sound" : values.keep,
    options: [
      { value: "none", label: say.keepNone },
      { value: "sound", label: say.keepSound },
      ...(call.kind === "omni" ? [film] : []),
    ],
    onChange: (keep) => change({ keep }),
  })}`;
}

function generation(values: CallValues, change: Change): TemplateResult {
  const say = words();
  const two = (value: number): string => number(value, 2);
  const whole = (value: number): string => number(value);
  return html`${slider({ label: say.temperature, hint: say.temperatureHint, value: values.temperature, min: 0, max: 2, step: 0.05, format: two, onInput: (temperature) => change({ temperature }) })}
  ${slider({ label: say.topP, value: values.topP, min: 0.05, max: 1, step: 0.05, format: two, onInput: (topP) => change({ topP }) })}
  ${slider({ label: say.topK, value: values.topK, min: 0, max: 100, step: 1, format: whole, onInput: (topK) => change({ topK }) })}
  ${slider({ label: say.maxTokens, hint: say.maxTokensHint, value: values.maxTokens, min: 1, max: 100, step: 1, format: whole, onInput: (maxTokens) => change({ maxTokens }) })}
  ${slider({ label: say.listenScale, hint: say.listenScaleHint, value: values.listenScale, min: 0, max: 3, step: 0.05, format: two, onInput: (listenScale) => change({ listenScale }) })}
  ${slider({ label: say.forceListen, hint: say.forceListenHint, value: values.forceListen, min: 0, max: 15, step: 1, format: (s) => say.seconds(whole(s)), onInput: (forceListen) => change({ forceListen }) })}`;
}

function keys({ call, values }: CallView, change: Change): TemplateResult {
  const say = words().keyList;
  const rows: [string, string][] = [
    [say.space, say.mute],
    ["P", say.pause],
    ["L", say.listen],
    ...(call.kind === "omni" ? [["C", say.camera] as [string, string]] : []),
    ["⇧ X", say.stop],
  ];
  return html`${toggle({
    label: words().useKeys,
    checked: values.keys,
    onChange: (on) => change({ keys: on }),
  })}
  <dl class="keys">
    ${rows.map(([key, meaning]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${meaning}</dd></div>`)}
  </dl>`;
}
