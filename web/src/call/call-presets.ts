import { frontendDefaults, type Preset } from "../api/catalog.ts";
import { loadVoices, voiceList } from "../components/voice-list.ts";
import { showError } from "../shell/errors.ts";
import { Store } from "../state/store.ts";
import type { CallSettings } from "./call-settings.ts";

/** Before the first sound of an answer, where the user has not said otherwise. */
export const suggestedDelayMs = new Store(200);

/** Ask the server for its suggestion; without an answer ours stays. */
export async function loadFrontendDefaults(): Promise<void> {
  suggestedDelayMs.set((await frontendDefaults()).playback_delay_ms);
}

/** Take over a preset's prompt and voice. One that is chosen already keeps what the user made of it. */
export function applyPreset(settings: CallSettings, preset: Preset): void {
  if (settings.value.preset === preset.id) return;
  settings.update({ preset: preset.id, prompt: preset.system_prompt ?? "" });
  voiceAt(preset.ref_audio?.path).then(
    (voice) => settings.update({ voice }),
    (error: unknown) => showError(error),
  );
}

async function voiceAt(path: string | undefined): Promise<string | null> {
  if (path === undefined) return null;
  if (voiceList.value === null) await loadVoices();
  return voiceList.value?.find((voice) => voice.path === path)?.id ?? null;
}
