import type { VoiceInfo } from "../api/answers.ts";
import { defaultVoice, deleteVoice, uploadVoice, voiceAudio, voices } from "../api/catalog.ts";
import { base64FromSamples, INPUT_RATE, type Samples, samplesFromBase64 } from "../audio/pcm.ts";
import { Store } from "../state/store.ts";
import { playAudio, stopAudio } from "./audio-playback.ts";

/** The voices of the server, shared by all pickers. Null until loaded. */
export const voiceList = new Store<readonly VoiceInfo[] | null>(null);

/** Id of the voice that is being previewed. */
export const previewedVoice = new Store<string | null>(null);

/** Rejects with ApiError. */
export async function loadVoices(): Promise<void> {
  voiceList.set(await voices());
}

/** Stores a voice of 16 kHz samples. Resolves to its id. */
export async function addVoice(name: string, samples: Samples): Promise<string> {
  const id = await uploadVoice(name, base64FromSamples(samples));
  await loadVoices();
  return id;
}

export async function removeVoice(id: string): Promise<void> {
  await deleteVoice(id);
  await loadVoices();
}

/** Id of the default voice. */
export const DEFAULT_VOICE = "";

/** A voice that comes with a preset and is not in the list. */
export interface PresetVoice {
  readonly name: string;
  /** 16 kHz. */
  readonly samples: Samples;
}

/** Starts or stops the preview of a voice. Rejects with ApiError if its audio cannot be fetched. */
export async function togglePreview(
  id: string,
  presetVoice: PresetVoice | null = null,
): Promise<void> {
  const again = previewedVoice.value === id;
  stopPreview();
  if (again) return;
  previewedVoice.set(id);
  const ended = (): void => {
    if (previewedVoice.value === id) previewedVoice.set(null);
  };
  try {
    const { samples, rate } = presetVoice
      ? { samples: presetVoice.samples, rate: INPUT_RATE }
      : await audioOf(id);
    if (previewedVoice.value === id) playAudio(samples, rate, 0, ended);
  } catch (error) {
    ended();
    throw error;
  }
}

async function audioOf(id: string): Promise<{ samples: Samples; rate: number }> {
  const audio = await (id === DEFAULT_VOICE ? defaultVoice() : voiceAudio(id));
  return { samples: samplesFromBase64(audio.base64), rate: audio.sample_rate };
}

export function stopPreview(): void {
  if (previewedVoice.value === null) return;
  previewedVoice.set(null);
  stopAudio();
}

/** Voice fields of the `prepare` message. */
export interface VoiceFields {
  /** For the model. */
  readonly ref_audio_path?: string;
  /** For the output voice: base64 of float32 at 16 kHz. */
  readonly tts_ref_audio_base64?: string;
}

/** Returns the voice fields for a selection. Rejects with ApiError. */
export async function voiceFields(choice: VoiceSelection): Promise<VoiceFields> {
  const path = voiceList.value?.find(({ id }) => id === choice.model)?.path;
  const audio = choice.speech === null ? null : await voiceAudio(choice.speech);
  return {
    ...(path === undefined ? {} : { ref_audio_path: path }),
    ...(audio === null ? {} : { tts_ref_audio_base64: audio.base64 }),
  };
}

/** Id of the voice with this file. Null if there is none. Rejects with ApiError. */
export async function voiceAt(path: string | undefined): Promise<string | null> {
  if (path === undefined) return null;
  if (voiceList.value === null) await loadVoices();
  return voiceList.value?.find((voice) => voice.path === path)?.id ?? null;
}

/** Voice ids. Null means the default voice for the model, and the model's voice for the output. */
export interface VoiceSelection {
  readonly model: string | null;
  readonly speech: string | null;
}
