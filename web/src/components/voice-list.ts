import {
  defaultVoice,
  deleteVoice,
  uploadVoice,
  type Voice,
  voiceAudio,
  voices,
} from "../api/voices.ts";
import { base64FromSamples, INPUT_RATE, type Samples, samplesFromBase64 } from "../audio/pcm.ts";
import { Store } from "../state/store.ts";
import { playAudio, stopAudio } from "./audio-playback.ts";

/** The server's voices, as every picker of the page shows them; null until they were loaded. */
export const voiceList = new Store<readonly Voice[] | null>(null);

/** The id of the voice that is being listened to. */
export const previewedVoice = new Store<string | null>(null);

/** Rejects with ApiError. */
export async function loadVoices(): Promise<void> {
  voiceList.set(await voices());
}

/** Keep a voice of 16 kHz samples; resolves to its id. */
export async function addVoice(name: string, samples: Samples): Promise<string> {
  const id = await uploadVoice(name, base64FromSamples(samples));
  await loadVoices();
  return id;
}

export async function removeVoice(id: string): Promise<void> {
  await deleteVoice(id);
  await loadVoices();
}

/** Stands for the voice that a conversation has when none was chosen. */
export const DEFAULT_VOICE = "";

/** A voice that is not on the shelf. */
export interface PresetVoice {
  readonly name: string;
  /** 16 kHz. */
  readonly samples: Samples;
}

/** Listen to a voice, or stop listening to it; `own` is heard instead of what the server has. */
export async function togglePreview(
  id: string,
  presetVoice: PresetVoice | null = null,
): Promise<void> {
  const again = previewedVoice.value === id;
  stopPreview();
  if (again) return;
  previewedVoice.set(id);
  const { samples, rate } = presetVoice
    ? { samples: presetVoice.samples, rate: INPUT_RATE }
    : await audioOf(id);
  if (previewedVoice.value !== id) return;
  const ended = (): void => {
    if (previewedVoice.value === id) previewedVoice.set(null);
  };
  playAudio(samples, rate, 0, ended);
}

async function audioOf(id: string): Promise<{ samples: Samples; rate: number }> {
  const sound = await (id === DEFAULT_VOICE ? defaultVoice() : voiceAudio(id));
  return { samples: samplesFromBase64(sound.base64), rate: sound.sample_rate };
}

export function stopPreview(): void {
  if (previewedVoice.value === null) return;
  previewedVoice.set(null);
  stopAudio();
}

/** What a conversation's `prepare` takes. */
export interface VoiceFields {
  /** For the model. */
  readonly ref_audio_path?: string;
  /** For the speech: base64 of float32 at 16 kHz. */
  readonly tts_ref_audio_base64?: string;
}

/** The wire's fields for a choice of the picker. Rejects with ApiError. */
export async function voiceFields(choice: VoiceSelection): Promise<VoiceFields> {
  const path = voiceList.value?.find(({ id }) => id === choice.model)?.path;
  const sound = choice.speech === null ? null : await voiceAudio(choice.speech);
  return {
    ...(path === undefined ? {} : { ref_audio_path: path }),
    ...(sound === null ? {} : { tts_ref_audio_base64: sound.base64 }),
  };
}

/** Ids of voices; null: the default one for the model, the model's one for the speech. */
export interface VoiceSelection {
  readonly model: string | null;
  readonly speech: string | null;
}
