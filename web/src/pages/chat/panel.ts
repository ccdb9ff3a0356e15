import "../../components/device-select.ts";
import "../../components/instructions-panel.ts";
import { html, nothing, type TemplateResult } from "lit";
import { answerLength } from "../../components/answer-length.ts";
import { resetSettings } from "../../components/reset-settings.ts";
import { formatNumber } from "../../i18n/language.ts";
import type { ChatRequest } from "../../protocol/client-messages.ts";
import type { ChatEntry } from "../../session/chat-exchange.ts";
import { INSTRUCTION_FIELDS, type Instructions } from "../../session/instructions.ts";
import { timeZone } from "../../session/time-zone.ts";
import { capabilities, clonesVoices } from "../../shell/capabilities.ts";
import { choice, flag, range, Settings } from "../../state/store.ts";
import { select, slider, toggle } from "../../ui/controls.ts";
import { chatStrings } from "./strings.ts";

export const chatSettings = new Settings(
  "turnbased",
  1,
  {
    ...INSTRUCTION_FIELDS,
    spoken: flag(true),
    maxTokens: range(512, 16, 2048),
    temperature: range(0.7, 0, 1.5),
    lengthPenalty: range(1.1, 0.5, 2),
    thinking: flag(false),
    detail: choice("auto", ["auto", "low", "medium", "high"]),
    videoSound: flag(true),
    record: flag(true),
  },
  "preset",
);

export type ChatChoices = typeof chatSettings.value;
export type Detail = ChatChoices["detail"];

const SLICES: Record<Detail, number | undefined> = { auto: undefined, low: 1, medium: 4, high: 9 };

/** The voice of the answers. */
interface ChatVoices {
  /** One of the engine's voices. */
  readonly named: string | undefined;
  /** File of the selected output voice. */
  readonly path: string | undefined;
}

/** Returns the request fields besides the messages. */
export function chatRequestFields(
  chosen: ChatChoices,
  instructions: Instructions,
  said: readonly ChatEntry[],
  voices: ChatVoices,
): Omit<ChatRequest, "messages"> {
  const video = said.some((one) => one.role === "user" && one.parts.some(isVideo));
  const slices = SLICES[chosen.detail];
  return {
    streaming: true,
    time_zone: timeZone(),
    generation: {
      max_new_tokens: chosen.maxTokens,
      temperature: chosen.temperature,
      length_penalty: chosen.lengthPenalty,
    },
    image: slices === undefined ? undefined : { max_slice_nums: slices },
    omni_mode: video && chosen.videoSound,
    enable_thinking: chosen.thinking,
    tts: speechWith(chosen, instructions, video, voices),
    record: chosen.record,
  };
}

/** The output voice is the one of the instructions unless the user selected another. */
function speechWith(
  { spoken }: ChatChoices,
  { messageParts }: Instructions,
  video: boolean,
  { named: voice, path }: ChatVoices,
): ChatRequest["tts"] {
  if (!spoken) return { enabled: false };
  const mode = video ? "omni" : "audio_assistant";
  const named: ChatRequest["tts"] = { enabled: true, mode, voice };
  if (!clonesVoices()) return named;
  const own = messageParts.find((part) => part.type === "audio")?.samples;
  const reference = path === undefined ? { ref_audio_data: own } : { ref_audio_path: path };
  return { ...named, ...reference };
}

function isVideo({ type }: { readonly type: string }): boolean {
  return type === "video";
}

/** Settings of the next question. */
export function chatPanel(instructions: Instructions): TemplateResult {
  const sees = capabilities.value?.sees ?? true;
  return html`
    <an-instructions-panel
      .instructions=${instructions}
      .kinds=${sees ? ["audio", "image"] : ["audio"]}
    ></an-instructions-panel>
    <section class="card stack">${answers()} ${sees ? seeing() : nothing} ${session()}</section>
    ${resetSettings(chatSettings)}
  `;
}

function answers(): TemplateResult {
  const t = chatStrings();
  return html`<details class="fold">
    <summary>${t.answers}</summary>
    <div class="stack">
      ${toggleOf("spoken", t.spoken)}
      ${toggleOf("thinking", t.thinkingToggle, t.thinkingHint)}
      ${answerLength(chatSettings.value, (change) => chatSettings.update(change))}
      ${slider({
        label: t.maxTokens,
        value: chatSettings.value.maxTokens,
        min: 16,
        max: 2048,
        step: 16,
        format: (value) => t.tokenCount(formatNumber(value)),
        onInput: (maxTokens) => chatSettings.update({ maxTokens }),
      })}
      ${slider({
        label: t.temperature,
        hint: t.temperatureHint,
        value: chatSettings.value.temperature,
        min: 0,
        max: 1.5,
        step: 0.1,
        format: (value) => formatNumber(value, 1),
        onInput: (temperature) => chatSettings.update({ temperature }),
      })}
      ${slider({
        label: t.lengthPenalty,
        hint: t.lengthPenaltyHint,
        value: chatSettings.value.lengthPenalty,
        min: 0.5,
        max: 2,
        step: 0.1,
        format: (value) => formatNumber(value, 1),
        onInput: (lengthPenalty) => chatSettings.update({ lengthPenalty }),
      })}
    </div>
  </details>`;
}

function seeing(): TemplateResult {
  const t = chatStrings();
  const details = Object.entries(t.details) as [Detail, string][];
  return html`<details class="fold">
    <summary>${t.seeing}</summary>
    <div class="stack">
      ${
        capabilities.value?.sees_in_words
          ? nothing
          : select({
              label: t.detail,
              value: chatSettings.value.detail,
              options: details.map(([value, label]) => ({ value, label })),
              onChange: (detail) => chatSettings.update({ detail }),
            })
      }
      ${toggleOf("videoSound", t.videoSound)}
    </div>
  </details>`;
}

function session(): TemplateResult {
  const t = chatStrings();
  return html`<details class="fold">
    <summary>${t.session}</summary>
    <div class="stack">
      ${toggleOf("record", t.recordServer, t.recordHint)}
      <an-device-select></an-device-select>
    </div>
  </details>`;
}

function toggleOf(
  name: "spoken" | "thinking" | "videoSound" | "record",
  label: string,
  hint?: string,
): TemplateResult {
  const onChange = (on: boolean): void => chatSettings.update({ [name]: on });
  return toggle({ label, hint, checked: chatSettings.value[name], onChange });
}
