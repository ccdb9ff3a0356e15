import { frontendDefaults, GREETING_LENGTH, type Preset } from "../api/catalog.ts";
import { type VoiceFields, voiceAt } from "../components/voice-list.ts";
import type { DuplexPrepare } from "../protocol/client-messages.ts";
import { presetChosen } from "../session/preset-choice.ts";
import { timeZone } from "../session/time-zone.ts";
import { loadCapabilities } from "../shell/capabilities.ts";
import { showError } from "../shell/errors.ts";
import {
  choice,
  flag,
  optional,
  orNull,
  range,
  Settings,
  Store,
  text,
  type Values,
} from "../state/store.ts";
import { isOwnPreset, type PresetContent } from "../storage/own-presets.ts";

export type CallKind = "audio" | "omni";

/** The server accepts wider limits (`shared_schemas/config.py`). These limits suit the page. */
const FIELDS = {
  preset: optional(64),
  prompt: text("", 8000),
  /** What the model says first. Empty: it waits for the user. */
  greeting: text("", GREETING_LENGTH),
  voice: optional(64),
  speech: optional(64),
  temperature: range(0.7, 0, 2),
  topP: range(0.8, 0.05, 1),
  topK: range(20, 0, 100),
  maxTokens: range(20, 1, 100),
  listenScale: range(1, 0, 3),
  forceListen: range(3, 0, 15),
  /** Silence after which the model asks for the user, seconds. 0: never. From the preset. */
  checkIn: range(0, 0, 600),
  /** Null uses the server default. */
  delayMs: orNull(range(200, 0, 800)),
  bargeIn: flag(true),
  /** Consent to the recording on the server. */
  record: flag(true),
  keep: choice("sound", ["none", "sound", "film"]),
  facing: choice("user", ["user", "environment"]),
  mirror: flag(true),
  /** Size of the last words of both sides below the orb or over the video. */
  captions: choice("medium", ["off", "small", "medium", "large"]),
  /** Enables the keyboard shortcuts. */
  keys: flag(true),
  slices: range(1, 1, 9),
};

export type CallSettings = Settings<typeof FIELDS>;
export type CallValues = Values<typeof FIELDS>;

export function callSettings(kind: CallKind): CallSettings {
  return new Settings(kind === "omni" ? "omni" : "audio_duplex", 1, FIELDS, "preset");
}

/** The fields of the `prepare` message, without the greeting. */
export function prepareFields(
  kind: CallKind,
  values: CallValues,
  voices: VoiceFields,
): DuplexPrepare {
  return {
    prefix_system_prompt: values.prompt,
    config: {
      time_zone: timeZone(),
      end_on_goodbye: true,
      temperature: values.temperature,
      top_p: values.topP,
      top_k: values.topK,
      max_new_speak_tokens_per_chunk: values.maxTokens,
      listen_prob_scale: values.listenScale,
      force_listen_count: values.forceListen,
      check_in_s: values.checkIn,
    },
    max_slice_nums: kind === "omni" ? values.slices : undefined,
    record: values.record ? undefined : false,
    ...voices,
  };
}

/** Playback delay that applies if the user has not set one. */
export const suggestedDelayMs = new Store(200);

/** Loads the defaults of the server. Without an answer, the values here remain. */
export async function loadFrontendDefaults(): Promise<void> {
  suggestedDelayMs.set((await frontendDefaults()).playback_delay_ms);
}

/** Resolves when a preset is chosen and the engines are known, or cannot be. */
export async function readyToCall(kind: CallKind, settings: CallSettings): Promise<void> {
  const hasPreset = settings.value.preset !== null;
  const page = kind === "omni" ? "omni" : "audio_duplex";
  await Promise.all([hasPreset || presetChosen(page), loadCapabilities()]);
}

const voiceLookups = new WeakMap<CallSettings, Promise<void>>();

/**
 * Applies the prompt, greeting and voice of a preset. A preset that is already selected keeps the user's
 * changes, and the first one keeps what the user has entered while the presets were loading.
 */
export function applyPreset(settings: CallSettings, preset: Preset): void {
  const before = settings.value;
  if (before.preset === preset.id) return;
  const entered = before.preset === null ? before : { prompt: "", greeting: "", voice: null };
  const { id, system_prompt: prompt, greeting } = preset;
  settings.update({
    preset: id,
    prompt: entered.prompt || (prompt ?? ""),
    greeting: entered.greeting || (greeting ?? ""),
    checkIn: preset.check_in_s ?? 0,
  });
  if (preset.voices) {
    settings.update({ voice: preset.voices.model, speech: preset.voices.speech });
    return;
  }
  if (isOwnPreset(before.preset)) settings.update({ speech: null });
  if (entered.voice !== null) return;
  const found = voiceAt(preset.ref_audio?.path).then(
    (voice) => {
      const { value } = settings; // the user may have selected another one
      if (value.preset === id && value.voice === before.voice) settings.update({ voice });
    },
    (error: unknown) => showError(error),
  );
  voiceLookups.set(settings, found);
}

/** What a preset of the user keeps, with the voice of the current preset, which may still be looked up. */
export async function presetContent(settings: CallSettings): Promise<PresetContent> {
  await voiceLookups.get(settings);
  const { prompt, greeting, voice, speech } = settings.value;
  return { texts: prompt === "" ? [] : [prompt], greeting, voice, speech };
}
