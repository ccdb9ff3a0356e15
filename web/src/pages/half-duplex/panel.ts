import "../../components/device-select.ts";
import "../../components/instructions-panel.ts";
import { html, type TemplateResult } from "lit";
import { voiceAudio } from "../../api/catalog.ts";
import { answerLength } from "../../components/answer-length.ts";
import { resetSettings } from "../../components/reset-settings.ts";
import { formatDuration, formatNumber, formatSeconds } from "../../i18n/language.ts";
import type { HalfDuplexPrepare, SystemItem } from "../../protocol/client-messages.ts";
import { INSTRUCTION_FIELDS, type Instructions } from "../../session/instructions.ts";
import { timeZone } from "../../session/time-zone.ts";
import { clonesVoices, loadCapabilities } from "../../shell/capabilities.ts";
import { flag, range, Settings } from "../../state/store.ts";
import { slider, toggle } from "../../ui/controls.ts";
import { halfDuplexStrings } from "./strings.ts";

/** Durations are in ms unless the name says otherwise. */
export const halfDuplexSettings = new Settings(
  "half-duplex",
  1,
  {
    ...INSTRUCTION_FIELDS,
    threshold: range(0.8, 0.05, 0.95),
    minSpeechMs: range(128, 0, 1000),
    minSilenceMs: range(800, 200, 3000),
    padMs: range(100, 0, 500),
    maxTokens: range(256, 16, 1024),
    temperature: range(0.7, 0, 1.5),
    lengthPenalty: range(1.1, 0.5, 2),
    spoken: flag(true),
    timeoutS: range(180, 30, 600),
    record: flag(true),
  },
  "preset",
);

export type HalfDuplexChoices = typeof halfDuplexSettings.value;

/** Returns the `prepare` fields. Rejects with ApiError if the selected voice cannot be loaded. */
export async function prepareHalfDuplex(
  chosen: HalfDuplexChoices,
  instructions: Instructions,
): Promise<HalfDuplexPrepare> {
  await Promise.all([instructions.complete(), loadCapabilities()]);
  const ownVoice = chosen.speech === null || !clonesVoices();
  const speech = ownVoice ? undefined : (await voiceAudio(chosen.speech)).base64;
  return {
    system_content: systemContent(instructions),
    ref_audio_base64: speech,
    record: chosen.record,
    config: {
      time_zone: timeZone(),
      end_on_goodbye: true,
      vad: {
        threshold: chosen.threshold,
        min_speech_duration_ms: chosen.minSpeechMs,
        min_silence_duration_ms: chosen.minSilenceMs,
        speech_pad_ms: chosen.padMs,
      },
      generation: {
        max_new_tokens: chosen.maxTokens,
        temperature: chosen.temperature,
        length_penalty: chosen.lengthPenalty,
      },
      tts: { enabled: chosen.spoken },
      session: { timeout_s: chosen.timeoutS },
    },
  };
}

function systemContent({ messageParts }: Instructions): SystemItem[] {
  return messageParts.flatMap((part): SystemItem[] => {
    if (part.type === "text") return [{ type: "text", text: part.text }];
    return part.type === "audio" ? [{ type: "audio", data: part.samples }] : [];
  });
}

type Figure =
  | "threshold"
  | "minSpeechMs"
  | "minSilenceMs"
  | "padMs"
  | "maxTokens"
  | "temperature"
  | "lengthPenalty"
  | "timeoutS";

interface Scale {
  readonly label: string;
  readonly hint?: string;
  readonly bounds: readonly [min: number, max: number, step: number];
  readonly format: (value: number) => string;
}

/** Settings of a session. `fixed` while one is active. */
export function halfDuplexPanel(instructions: Instructions, fixed: boolean): TemplateResult {
  return html`
    <p class="small soft" ?hidden=${!fixed}>${halfDuplexStrings().fixed}</p>
    <an-instructions-panel
      .instructions=${instructions}
      .kinds=${["audio"]}
      ?disabled=${fixed}
    ></an-instructions-panel>
    <section class="card stack">${hearing(fixed)} ${answers(fixed)} ${session(fixed)}</section>
    ${resetSettings(halfDuplexSettings, fixed)}
  `;
}

function hearing(fixed: boolean): TemplateResult {
  const t = halfDuplexStrings();
  return html`<details class="fold">
    <summary>${t.hearing}</summary>
    <div class="stack">
      ${figure("minSilenceMs", fixed, {
        label: t.minSilence,
        hint: t.minSilenceHint,
        bounds: [200, 3000, 50],
        format: (ms) => formatSeconds(ms / 1000),
      })}
      ${figure("threshold", fixed, {
        label: t.threshold,
        hint: t.thresholdHint,
        bounds: [0.05, 0.95, 0.05],
        format: (value) => formatNumber(value, 2),
      })}
      ${figure("minSpeechMs", fixed, {
        label: t.minSpeech,
        hint: t.minSpeechHint,
        bounds: [0, 1000, 8],
        format: formatDuration,
      })}
      ${figure("padMs", fixed, { label: t.pad, bounds: [0, 500, 10], format: formatDuration })}
    </div>
  </details>`;
}

function answers(fixed: boolean): TemplateResult {
  const t = halfDuplexStrings();
  return html`<details class="fold">
    <summary>${t.answers}</summary>
    <div class="stack">
      ${toggle({
        label: t.spoken,
        checked: halfDuplexSettings.value.spoken,
        disabled: fixed,
        onChange: (spoken) => halfDuplexSettings.update({ spoken }),
      })}
      ${answerLength(halfDuplexSettings.value, (change) => halfDuplexSettings.update(change), fixed)}
      ${figure("maxTokens", fixed, {
        label: t.maxTokens,
        bounds: [16, 1024, 16],
        format: (value) => t.tokens(formatNumber(value)),
      })}
      ${figure("temperature", fixed, {
        label: t.temperature,
        hint: t.temperatureHint,
        bounds: [0, 1.5, 0.1],
        format: (value) => formatNumber(value, 1),
      })}
      ${figure("lengthPenalty", fixed, {
        label: t.lengthPenalty,
        hint: t.lengthPenaltyHint,
        bounds: [0.5, 2, 0.1],
        format: (value) => formatNumber(value, 1),
      })}
    </div>
  </details>`;
}

function session(fixed: boolean): TemplateResult {
  const t = halfDuplexStrings();
  return html`<details class="fold">
    <summary>${t.session}</summary>
    <div class="stack">
      ${figure("timeoutS", fixed, {
        label: t.timeout,
        bounds: [30, 600, 10],
        format: formatSeconds,
      })}
      ${toggle({
        label: t.record,
        hint: t.recordHint,
        checked: halfDuplexSettings.value.record,
        disabled: fixed,
        onChange: (record) => halfDuplexSettings.update({ record }),
      })}
      <an-device-select ?disabled=${fixed}></an-device-select>
    </div>
  </details>`;
}

function figure(name: Figure, disabled: boolean, { bounds, ...scale }: Scale): TemplateResult {
  const [min, max, step] = bounds;
  const onInput = (value: number): void => halfDuplexSettings.update({ [name]: value });
  return slider({
    ...scale,
    min,
    max,
    step,
    value: halfDuplexSettings.value[name],
    disabled,
    onInput,
  });
}
