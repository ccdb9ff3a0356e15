import { fetchJson } from "./http.ts";

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

const PATH = "/api/assets/ref_audio";

export async function voices(): Promise<readonly Voice[]> {
  return (await fetchJson<{ ref_audios: Voice[] }>(PATH)).ref_audios;
}

export function voiceAudio(id: string): Promise<VoiceAudio> {
  return fetchJson(`${PATH}/${encodeURIComponent(id)}`);
}

/** Returns the default voice. */
export function defaultVoice(): Promise<VoiceAudio> {
  return fetchJson("/api/default_ref_audio");
}

/** Stores a voice for all users. `audio` is base64 of a WAV, or of float32 mono PCM at 16 kHz. */
export async function uploadVoice(name: string, base64: string): Promise<string> {
  const body = { name, audio_base64: base64 };
  return (await fetchJson<{ id: string }>(PATH, { method: "POST", body })).id;
}

export async function deleteVoice(id: string): Promise<void> {
  await fetchJson(`${PATH}/${encodeURIComponent(id)}`, { method: "DELETE" });
}
