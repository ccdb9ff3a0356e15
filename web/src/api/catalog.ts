import { fetchJson } from "./http.ts";

/** An enabled page. */
export interface AppEntry {
  readonly app_id: string;
  readonly name: string;
  readonly route: string;
}

/** What the live engines can do. Empty lists of languages: unknown. */
export interface Capabilities {
  /** Null if no worker runs or loads a model. */
  readonly model: string | null;
  readonly hears: readonly string[];
  readonly speaks: readonly string[];
  readonly sees: boolean;
  readonly clones_voices: boolean;
  readonly calls_tools: boolean;
  /** Every engine with spoken sessions speaks the greeting of a session first. */
  readonly greets: boolean;
  readonly simulated: boolean;
}

/** Pages that have presets. */
export type PresetPage = "turnbased" | "half_duplex_audio" | "omni" | "audio_duplex";

export interface VoiceRef {
  readonly data: null;
  readonly path: string;
  readonly name: string;
  /** Seconds. */
  readonly duration: number;
}

export type PresetItem =
  | { readonly type: "text"; readonly text: string }
  | (VoiceRef & { readonly type: "audio" });

export interface Preset {
  readonly id: string;
  readonly order: number;
  readonly name: string;
  readonly description: string;
  readonly lang?: "en" | "zh";
  /** What the engine must do: `sight`, or a language that it must understand. */
  readonly needs?: readonly string[];
  /** Duplex pages. */
  readonly system_prompt?: string;
  /** Duplex and half-duplex pages. */
  readonly greeting?: string;
  /** Turn-based and half-duplex pages. */
  readonly system_content?: readonly PresetItem[];
  readonly ref_audio?: VoiceRef;
  /** Presets of the user: voice ids instead of audio. */
  readonly voices?: { readonly model: string | null; readonly speech: string | null };
}

/** The server refuses a longer greeting. */
export const GREETING_LENGTH = 300;

export interface PresetAudioClip {
  /** base64 of float32 mono PCM at 16 kHz. */
  readonly data: string;
  readonly name: string;
  readonly duration: number;
}

export interface PresetAudio {
  /** In the order of the audio items of `system_content`. */
  readonly system_content_audio?: readonly PresetAudioClip[];
  readonly ref_audio?: PresetAudioClip;
}

export interface FrontendDefaults {
  readonly playback_delay_ms: number;
  readonly default_lang?: "en" | "zh";
}

export interface ServiceStatus {
  readonly gateway_healthy: boolean;
  readonly total_workers: number;
  readonly idle_workers: number;
  readonly busy_workers: number;
  readonly duplex_workers: number;
  readonly loading_workers: number;
  readonly error_workers: number;
  readonly offline_workers: number;
  readonly slots_total: number;
  readonly slots_used: number;
  readonly queue_length: number;
  readonly max_queue_size: number;
}

/** Returns the pages for the menu. */
export async function apps(): Promise<readonly AppEntry[]> {
  return (await fetchJson<{ apps: AppEntry[] }>("/api/apps")).apps;
}

export function fetchCapabilities(): Promise<Capabilities> {
  return fetchJson("/api/capabilities");
}

export async function presets(page: PresetPage): Promise<readonly Preset[]> {
  return (await fetchJson<Record<string, Preset[]>>("/api/presets"))[page] ?? [];
}

export function presetAudio(page: PresetPage, id: string): Promise<PresetAudio> {
  return fetchJson(`/api/presets/${page}/${encodeURIComponent(id)}/audio`);
}

export function frontendDefaults(): Promise<FrontendDefaults> {
  return fetchJson("/api/frontend_defaults");
}

export function serviceStatus(signal?: AbortSignal): Promise<ServiceStatus> {
  return fetchJson("/status", signal ? { signal } : {});
}

/** A reference voice stored on the server. */
export interface Voice {
  readonly id: string;
  readonly name: string;
  readonly source_type: "shipped" | "upload";
  readonly duration_ms: number;
  readonly sample_rate: number;
  readonly created_at: string;
  /** Value for `ref_audio_path`. */
  readonly path: string;
}

/** A voice and its audio. */
export interface VoiceAudio {
  readonly name: string;
  /** Seconds. */
  readonly duration: number;
  readonly sample_rate: number;
  readonly samples: number;
  /** base64 of float32 mono PCM. */
  readonly base64: string;
}

const VOICES_PATH = "/api/assets/ref_audio";

export async function voices(): Promise<readonly Voice[]> {
  return (await fetchJson<{ ref_audios: Voice[] }>(VOICES_PATH)).ref_audios;
}

export function voiceAudio(id: string): Promise<VoiceAudio> {
  return fetchJson(`${VOICES_PATH}/${encodeURIComponent(id)}`);
}

/** Returns the default voice. */
export function defaultVoice(): Promise<VoiceAudio> {
  return fetchJson("/api/default_ref_audio");
}

/** Stores a voice for all users. `audio` is base64 of a WAV, or of float32 mono PCM at 16 kHz. */
export async function uploadVoice(name: string, base64: string): Promise<string> {
  const body = { name, audio_base64: base64 };
  return (await fetchJson<{ id: string }>(VOICES_PATH, { method: "POST", body })).id;
}

export async function deleteVoice(id: string): Promise<void> {
  await fetchJson(`${VOICES_PATH}/${encodeURIComponent(id)}`, { method: "DELETE" });
}
