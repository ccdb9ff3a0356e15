import "../components/device-select.ts";
import "../components/named-voice.ts";
import "../components/preset-selector.ts";
import "../components/voice-picker.ts";
import { html, nothing, type TemplateResult } from "lit";
import { GREETING_LENGTH, type Preset } from "../api/catalog.ts";
import { resetSettings } from "../components/reset-settings.ts";
import type { VoiceSelection } from "../components/voice-list.ts";
import { common } from "../i18n/common.ts";
import { formatDuration, formatNumber } from "../i18n/language.ts";
import { capabilities, clonesVoices } from "../shell/capabilities.ts";
import { menu, withPreset } from "../shell/header.ts";
import { hasDatabase } from "../storage/database.ts";
import { segmented, slider, textArea, toggle } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";
import { type CallView, isBusy } from "./call-actions.ts";
import {
  applyPreset,
  type CallKind,
  type CallValues,
  presetContent,
  suggestedDelayMs,
} from "./call-settings.ts";
import { callSettingsStrings } from "./strings.ts";

type Change = (change: Partial<CallValues>) => void;

/** Settings of the next call. */
export function settingsPanel(view: CallView): TemplateResult {
  const { call, values, settings, state } = view;
  const change: Change = (some) => settings.update(some);
  return html`<div class="stack">
    ${isBusy(state) ? html`<p class="tiny soft">${callSettingsStrings().nextCall}</p>` : nothing}
    <an-preset-selector
      .page=${call.kind === "omni" ? "omni" : "audio_duplex"}
      .chosen=${values.preset}
      @choose=${({ detail }: CustomEvent<Preset>) => applyPreset(settings, detail)}
    ></an-preset-selector>
    ${textArea({
      label: callSettingsStrings().prompt,
      value: values.prompt,
      rows: 5,
      longest: 8000,
      onInput: (prompt) => change({ prompt }),
    })}
    ${
      capabilities.value?.greets
        ? textArea({
            label: common().presets.greeting,
            hint: common().presets.greetingHint,
            value: values.greeting,
            rows: 2,
            longest: GREETING_LENGTH,
            onInput: (greeting) => change({ greeting }),
          })
        : nothing
    }
    ${clonesVoices() ? voicePicker(values, change) : nothing}
    <an-own-preset
      .chosen=${values.preset}
      .content=${() => presetContent(settings)}
      @choose=${({ detail }: CustomEvent<Preset>) => applyPreset(settings, detail)}
    ></an-own-preset>
    <an-named-voice></an-named-voice>
    ${inputSourceSelect(view)} ${fold(callSettingsStrings().devices, deviceSettings(view))}
    ${isBusy(state) ? nothing : deviceCheck(view)}
    ${fold(callSettingsStrings().talking, talking(values, change))}
    ${call.kind === "omni" ? fold(callSettingsStrings().camera, camera(values, change)) : nothing}
    ${fold(callSettingsStrings().captions, captions(values, change))}
    ${fold(callSettingsStrings().recording, recording(view, change))}
    ${fold(callSettingsStrings().generation, generation(values, change))} ${fold(callSettingsStrings().keys, keys(values, change))}
    ${resetSettings(settings)}
  </div>`;
}

function voicePicker({ voice, speech }: CallValues, change: Change): TemplateResult {
  return html`<an-voice-picker
    .value=${{ model: voice, speech }}
    @change=${({ detail }: CustomEvent<VoiceSelection>) => change({ voice: detail.model, speech: detail.speech })}
  ></an-voice-picker>`;
}

function fold(title: string, body: TemplateResult): TemplateResult {
  return html`<details class="fold">
    <summary>${title}</summary>
    <div class="stack">${body}</div>
  </details>`;
}

function inputSourceSelect({ call, state, source, file, actions }: CallView): TemplateResult {
  const t = callSettingsStrings();
  return html`${segmented({
    name: "source",
    label: t.source,
    value: source,
    options: [
      { value: "microphone", label: t.microphone, icon: "mic" },
      { value: "file", label: t.file, icon: "file" },
    ],
    onChange: actions.selectSource,
  })}
  ${
    source === "file"
      ? html`${filePicker(call.kind, file, actions.selectFile)}
        ${toggle({ label: t.playFile, checked: state.monitored, onChange: actions.monitor })}`
      : nothing
  }`;
}

function deviceSettings({ call, state, actions }: CallView): TemplateResult {
  const { phase } = state.sessionState;
  return html`<an-device-select
    ?camera=${call.kind === "omni"}
    ?disabled=${phase === "opening" || phase === "stopping"}
    @change=${(event: CustomEvent<string>) => actions.changed(event.detail)}
  ></an-device-select>`;
}

function deviceCheck({ call, checking, actions }: CallView): TemplateResult {
  return html`<details
    class="fold"
    ?open=${checking}
    @toggle=${({ target }: Event) => actions.check((target as HTMLDetailsElement).open)}
  >
    <summary>${callSettingsStrings().check}</summary>
    ${checking ? html`<an-device-check ?camera=${call.kind === "omni"}></an-device-check>` : nothing}
  </details>`;
}

/** Half-duplex conversations have a page of their own. */
function takeTurns(preset: string | null): TemplateResult | typeof nothing {
  const page = menu.value.find(({ app_id }) => app_id === "half_duplex_audio");
  if (!page) return nothing;
  const t = callSettingsStrings();
  return html`<div class="field">
    <a class="button" href=${withPreset(page.route, preset)}>${icon("turns")} ${t.takeTurns}</a>
    <span class="hint">${t.takeTurnsHint}</span>
  </div>`;
}

function talking({ bargeIn, delayMs, preset }: CallValues, change: Change): TemplateResult {
  const t = callSettingsStrings();
  const suggested = suggestedDelayMs.value;
  const isOwn = delayMs !== null;
  return html`${toggle({
    label: t.bargeIn,
    hint: t.bargeInHint,
    checked: bargeIn,
    onChange: (on) => change({ bargeIn: on }),
  })}
  ${slider({
    label: t.delay,
    hint: t.delayHint,
    value: delayMs ?? suggested,
    min: 0,
    max: 800,
    step: 20,
    format: (ms) => (isOwn ? formatDuration(ms) : t.delayAutomatic(formatDuration(ms))),
    onInput: (ms) => change({ delayMs: ms }),
  })}
  ${takeTurns(preset)}`;
}

function camera({ mirror, facing, slices }: CallValues, change: Change): TemplateResult {
  const t = callSettingsStrings();
  return html`${segmented({
    name: "facing",
    label: t.facing,
    value: facing,
    options: [
      { value: "user", label: t.front },
      { value: "environment", label: t.back },
    ],
    onChange: (side) => change({ facing: side }),
  })}
  ${toggle({
    label: t.mirror,
    hint: t.mirrorHint,
    checked: mirror,
    onChange: (on) => change({ mirror: on }),
  })}
  ${slider({
    label: t.detail,
    hint: t.detailHint,
    value: slices,
    min: 1,
    max: 9,
    step: 1,
    format: t.pieces,
    onInput: (slices) => change({ slices }),
  })}`;
}

function captions({ captions: size }: CallValues, change: Change): TemplateResult {
  const t = callSettingsStrings();
  return segmented<CallValues["captions"]>({
    name: "captions",
    label: t.captionSize,
    hint: t.captionHint,
    value: size,
    options: [
      { value: "off", label: t.captionSizes.off },
      { value: "small", label: t.captionSizes.small },
      { value: "medium", label: t.captionSizes.medium },
      { value: "large", label: t.captionSizes.large },
    ],
    onChange: (captions) => change({ captions }),
  });
}

function recording({ call, values }: CallView, change: Change): TemplateResult {
  const t = callSettingsStrings();
  const video = { value: "film", label: t.keepVideo } as const;
  return html`${toggle({
    label: t.record,
    hint: t.recordHint,
    checked: values.record,
    onChange: (record) => change({ record }),
  })}
  ${segmented<CallValues["keep"]>({
    name: "keep",
    label: t.keep,
    hint: hasDatabase.value ? t.keepHint : t.keepHintTab,
    value: call.kind === "audio" && values.keep === "film" ? "sound" : values.keep,
    options: [
      { value: "none", label: t.keepNone },
      { value: "sound", label: t.keepAudio },
      ...(call.kind === "omni" ? [video] : []),
    ],
    onChange: (keep) => change({ keep }),
  })}`;
}

function generation(values: CallValues, change: Change): TemplateResult {
  const t = callSettingsStrings();
  const two = (value: number): string => formatNumber(value, 2);
  const whole = (value: number): string => formatNumber(value);
  return html`${slider({ label: t.temperature, hint: t.temperatureHint, value: values.temperature, min: 0, max: 2, step: 0.05, format: two, onInput: (temperature) => change({ temperature }) })}
  ${slider({ label: t.topP, value: values.topP, min: 0.05, max: 1, step: 0.05, format: two, onInput: (topP) => change({ topP }) })}
  ${slider({ label: t.topK, value: values.topK, min: 0, max: 100, step: 1, format: whole, onInput: (topK) => change({ topK }) })}
  ${slider({ label: t.maxTokens, hint: t.maxTokensHint, value: values.maxTokens, min: 1, max: 100, step: 1, format: whole, onInput: (maxTokens) => change({ maxTokens }) })}
  ${slider({ label: t.listenScale, hint: t.listenScaleHint, value: values.listenScale, min: 0, max: 3, step: 0.05, format: two, onInput: (listenScale) => change({ listenScale }) })}
  ${slider({ label: t.forceListen, hint: t.forceListenHint, value: values.forceListen, min: 0, max: 15, step: 1, format: (s) => t.seconds(whole(s)), onInput: (forceListen) => change({ forceListen }) })}`;
}

function keys({ keys: on }: CallValues, change: Change): TemplateResult {
  const t = callSettingsStrings();
  return toggle({
    label: t.useKeys,
    hint: t.useKeysHint,
    checked: on,
    onChange: (keys) => change({ keys }),
  });
}

/** Selects the file that replaces the microphone. */
function filePicker(
  kind: CallKind,
  file: File | null,
  onChoose: (file: File) => void,
): TemplateResult {
  const t = callSettingsStrings();
  return html`<div class="row still">
      <label class="button" for="call-file">${icon("upload")} ${file ? t.otherFile : t.chooseFile}</label>
      ${file ? html`<span class="small truncate">${file.name}</span>` : nothing}
    </div>
    <input
      id="call-file"
      class="visually-hidden"
      type="file"
      accept="audio/*,video/*"
      @change=${({ target }: Event) => {
        const chosen = (target as HTMLInputElement).files?.[0];
        if (chosen) onChoose(chosen);
      }}
    />
    <p class="tiny soft">${t.fileHint[kind]}</p>`;
}
