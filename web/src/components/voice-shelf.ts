import {
  defaultVoice,
  deleteVoice,
  uploadVoice,
  type Voice,
  voiceSound,
  voices,
} from "../api/voices.ts";
import { base64FromSamples, INPUT_RATE, type Samples, samplesFromBase64 } from "../audio/pcm.ts";
import { Store } from "../state/store.ts";
import { hushSounds, playSound } from "./playback.ts";

/** The server's voices, as every picker of the page shows them; null until they were loaded. */
export const shelf = new Store<readonly Voice[] | null>(null);

/** The id of the voice that is being listened to. */
export const playing = new Store<string | null>(null);

/** Rejects with ApiError. */
export async function loadShelf(): Promise<void> {
  shelf.set(await voices());
}

/** Keep a voice of 16 kHz samples; resolves to its id. */
export async function addVoice(name: string, samples: Samples): Promise<string> {
  const id = await uploadVoice(name, base64FromSamples(samples));
  await loadShelf();
  return id;
}

export async function removeVoice(id: string): Promise<void> {
  await deleteVoice(id);
  await loadShelf();
}

/** Stands for the voice that a conversation has when none was chosen. */
export const DEFAULT_VOICE = "";

/** A voice that is not on the shelf. */
export interface OwnVoice {
  readonly name: string;
  /** 16 kHz. */
  readonly samples: Samples;
}

/** Listen to a voice, or stop listening to it; `own` is heard instead of what the server has. */
export async function togglePlaying(id: string, own: OwnVoice | null = null): Promise<void> {
  const again = playing.value === id;
  hush();
  if (again) return;
  playing.set(id);
  const { samples, rate } = own ? { samples: own.samples, rate: INPUT_RATE } : await soundOf(id);
  if (playing.value !== id) return;
  const ended = (): void => {
    if (playing.value === id) playing.set(null);
  };
  playSound(samples, rate, 0, ended);
}

async function soundOf(id: string): Promise<{ samples: Samples; rate: number }> {
  const sound = await (id === DEFAULT_VOICE ? defaultVoice() : voiceSound(id));
  return { samples: samplesFromBase64(sound.base64), rate: sound.sample_rate };
}

export function hush(): void {
  if (playing.value === null) return;
  playing.set(null);
  hushSounds();
}

/** What a conversation's `prepare` takes. */
export interface VoiceFields {
  /** For the model. */
  readonly ref_audio_path?: string;
  /** For the speech: base64 of float32 at 16 kHz. */
  readonly tts_ref_audio_base64?: string;
}

/** The wire's fields for a choice of the picker. Rejects with ApiError. */
export async function voiceFields(choice: VoiceChoice): Promise<VoiceFields> {
  const path = shelf.value?.find(({ id }) => id === choice.model)?.path;
  const sound = choice.speech === null ? null : await voiceSound(choice.speech);
  return {
    ...(path === undefined ? {} : { ref_audio_path: path }),
    ...(sound === null ? {} : { tts_ref_audio_base64: sound.base64 }),
  };
}

/** Ids of voices; null: the default one for the model, the model's one for the speech. */
export interface VoiceChoice {
  readonly model: string | null;
  readonly speech: string | null;
}
