import { frontendDefaults, type Preset } from "../api/catalog.ts";
import { voiceAt } from "../components/voice-list.ts";
import { loadCapabilities } from "../shell/capabilities.ts";
import { showError } from "../shell/errors.ts";
import { Store } from "../state/store.ts";
import { isOwnPreset, type PresetContent } from "../storage/own-presets.ts";
import type { CallSettings } from "./call-settings.ts";

/** Playback delay that applies if the user has not set one. */
export const suggestedDelayMs = new Store(200);

/** Loads the defaults of the server. Without an answer, the values here remain. */
export async function loadFrontendDefaults(): Promise<void> {
  suggestedDelayMs.set((await frontendDefaults()).playback_delay_ms);
}

const PRESET_WAIT_MS = 1000;

/** Resolves when a preset is chosen and the engines are known. Calls do not wait long for it. */
export async function presetChosen(settings: CallSettings): Promise<void> {
  let release = (): unknown => undefined;
  const chosen = new Promise<void>((resolve) => {
    if (settings.value.preset !== null) resolve();
    else release = settings.subscribe(() => resolve());
  });
  const late = new Promise((resolve) => setTimeout(resolve, PRESET_WAIT_MS));
  await Promise.race([Promise.all([chosen, loadCapabilities()]), late]);
  release();
}

/**
 * Applies the prompt, greeting and voice of a preset. A preset that is already selected keeps the user's
 * changes.
 */
export function applyPreset(settings: CallSettings, preset: Preset): void {
  if (settings.value.preset === preset.id) return;
  const wasOwn = isOwnPreset(settings.value.preset);
  const { id, system_prompt: prompt = "", greeting = "" } = preset;
  settings.update({ preset: id, prompt, greeting });
  if (preset.voices) {
    settings.update({ voice: preset.voices.model, speech: preset.voices.speech });
    return;
  }
  if (wasOwn) settings.update({ speech: null });
  voiceAt(preset.ref_audio?.path).then(
    (voice) => settings.value.preset === id && settings.update({ voice }),
    (error: unknown) => showError(error),
  );
}

/** What a preset of the user keeps. */
export function presetContent({ value }: CallSettings): PresetContent {
  const { prompt, greeting, voice, speech } = value;
  return { texts: prompt === "" ? [] : [prompt], greeting, voice, speech };
}
