import type * as v from "valibot";
import type {
  Capabilities,
  FrontendDefaults,
  PageInfo,
  PresetSounds,
  ServiceStatus,
  VoiceInfo,
  VoiceSound,
} from "./answers.ts";
import * as answers from "./answers.ts";
import { fetchApi, fetchJson } from "./http.ts";

/** Pages that have presets. */
export type PresetPage = "turnbased" | "half_duplex_audio" | "omni" | "audio_duplex";

/** A preset of the server or of the user. */
export interface Preset extends v.InferOutput<typeof answers.preset> {
  /** Presets of the user: voice ids instead of audio. */
  readonly voices?: { readonly model: string | null; readonly speech: string | null };
}

/** The server refuses a longer greeting. */
export const GREETING_LENGTH = 300;

/** Returns the pages for the menu. */
export async function apps(): Promise<readonly PageInfo[]> {
  return (await fetchJson("/api/apps", answers.pages)).apps;
}

export function fetchCapabilities(): Promise<Capabilities> {
  return fetchJson("/api/capabilities", answers.capabilities);
}

export async function presets(page: PresetPage): Promise<readonly Preset[]> {
  return (await fetchJson("/api/presets", answers.presets))[page] ?? [];
}

export function presetAudio(page: PresetPage, id: string): Promise<PresetSounds> {
  return fetchJson(`/api/presets/${page}/${encodeURIComponent(id)}/audio`, answers.presetSounds);
}

let defaults: Promise<FrontendDefaults> | undefined;

/** Several parts of a page need them: they share one request, unless it fails. */
export function frontendDefaults(): Promise<FrontendDefaults> {
  defaults ??= fetchJson("/api/frontend_defaults", answers.frontendDefaults).catch((error) => {
    defaults = undefined;
    throw error;
  });
  return defaults;
}

export function serviceStatus(signal?: AbortSignal): Promise<ServiceStatus> {
  return fetchJson("/status", answers.serviceStatus, signal ? { signal } : {});
}

const VOICES_PATH = "/api/assets/ref_audio";

export async function voices(): Promise<readonly VoiceInfo[]> {
  return (await fetchJson(VOICES_PATH, answers.voiceList)).ref_audios;
}

export function voiceAudio(id: string): Promise<VoiceSound> {
  return fetchJson(`${VOICES_PATH}/${encodeURIComponent(id)}`, answers.voiceSound);
}

/** A few words of one of the engine's voices. */
export async function voiceSample(id: string): Promise<Blob> {
  return (await fetchApi(`/api/voices/${encodeURIComponent(id)}/sample`)).blob();
}

/** Returns the default voice. */
export function defaultVoice(): Promise<VoiceSound> {
  return fetchJson("/api/default_ref_audio", answers.voiceSound);
}

/** Stores a voice for all users. `audio` is base64 of a WAV, or of float32 mono PCM at 16 kHz. */
export async function uploadVoice(name: string, base64: string): Promise<string> {
  const body = { name, audio_base64: base64 };
  return (await fetchJson(VOICES_PATH, answers.voiceChange, { method: "POST", body })).id;
}

export async function deleteVoice(id: string): Promise<void> {
  await fetchApi(`${VOICES_PATH}/${encodeURIComponent(id)}`, { method: "DELETE" });
}
