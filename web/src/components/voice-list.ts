import type { VoiceInfo } from "../api/answers.ts";
import { defaultVoice, deleteVoice, uploadVoice, voiceAudio, voices } from "../api/catalog.ts";
import { base64FromSamples, type Samples, samplesFromBase64 } from "../audio/pcm.ts";
import { showError } from "../shell/errors.ts";
import { Store } from "../state/store.ts";
import type { Clip } from "./voice-preview.ts";

/** The voices of the server, shared by all pickers. Null until loaded. */
export const voiceList = new Store<readonly VoiceInfo[] | null>(null);

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

/** What a voice of the list sounds like. Rejects with ApiError. */
export async function clipOf(id: string): Promise<Clip> {
  const audio = await (id === DEFAULT_VOICE ? defaultVoice() : voiceAudio(id));
  return { samples: samplesFromBase64(audio.base64), rate: audio.sample_rate };
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
  const path = await voicePath(choice.model);
  const audio = choice.speech === null ? null : await voiceAudio(choice.speech);
  return {
    ...(path === undefined ? {} : { ref_audio_path: path }),
    ...(audio === null ? {} : { tts_ref_audio_base64: audio.base64 }),
  };
}

/**
 * File of a voice. Undefined for the default voice, and if there is no such voice. If the list cannot be
 * loaded, it shows why, and the default voice speaks.
 */
export async function voicePath(id: string | null): Promise<string | undefined> {
  if (id === null) return undefined;
  const find = (): string | undefined => voiceList.value?.find((voice) => voice.id === id)?.path;
  const known = find();
  if (known !== undefined) return known;
  await loadVoices().catch((error: unknown) => showError(error));
  return find();
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
