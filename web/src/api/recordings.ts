import { fetchApi, fetchJson } from "./http.ts";

/** The fields of `meta.json` and `recording.json` that the pages read. */
export type RecordingKind = "chat" | "half_duplex_audio" | "audio_duplex" | "omni_duplex";

export type EndReason =
  | "stopped"
  | "timeout"
  | "client_gone"
  | "cancelled"
  | "edge_lost"
  | "worker_lost"
  | "server_shutdown"
  | "context_full"
  | "error";

export interface RecordingMeta {
  readonly recording_id: string;
  readonly session_id: string;
  readonly app_type: RecordingKind;
  readonly state: "recording" | "complete" | "interrupted";
  readonly reason?: EndReason | null;
  readonly created_at: string;
  readonly duration_s?: number | null;
  readonly worker_id?: string;
  readonly chunks?: number | null;
  readonly turns?: number | null;
  readonly config: Readonly<Record<string, unknown>>;
  readonly missing?: readonly { readonly why?: string }[];
  readonly degraded?: readonly { readonly error: string }[];
  readonly replay?: "merging" | "ready" | "none" | "failed" | null;
  readonly merged_replay?: string | null;
  readonly merged_replay_video?: string | null;
  /** The same sound as `merged_replay`, much smaller. Older recordings have none. */
  readonly merged_replay_opus?: string | null;
}

/** The loudest sample of each part of a replay, 0 to 255. */
export interface RecordingPeaks {
  readonly per_second: number;
  readonly user: readonly number[];
  readonly model: readonly number[];
}

export interface UnitTiming {
  readonly prefill_ms: number;
  readonly llm_ms: number;
  readonly tts_prep_ms: number;
  readonly tts_ms: number;
  readonly token2wav_ms: number;
  readonly all_ms: number;
  readonly wall_clock_ms: number;
  readonly edge_to_worker_ms: number;
  readonly n_tokens: number;
  readonly kv_cache_length: number;
}

export interface RecordedUnit {
  readonly mode: "LISTEN" | "SPEAK";
  readonly publish_ts_ms: number;
  readonly timing: UnitTiming;
  readonly text?: string;
  readonly user_text?: string;
  readonly ai_audio_duration_ms?: number;
  readonly end_of_turn?: boolean;
}

export interface RecordedChunk {
  readonly receive_ts_ms: number;
  readonly user_audio_duration_ms?: number;
  readonly user_frame?: string;
  readonly user_frames?: readonly string[];
  readonly force_listen?: boolean;
  readonly result?: RecordedUnit;
  readonly repeated_results?: readonly RecordedUnit[];
}

export interface RecordingEvent {
  readonly ts_ms: number;
  readonly type: string;
  readonly speaking?: boolean;
  readonly message?: string;
}

export interface RecordedPart {
  readonly type: "text" | "audio" | "image" | "video";
  readonly text?: string;
  readonly file?: string;
}

export interface RecordedTurn {
  readonly request_ts_ms: number;
  readonly done_ts_ms?: number;
  readonly input: {
    readonly text?: string;
    readonly audio?: string;
    readonly audio_duration_ms?: number;
    readonly messages?: readonly {
      readonly role: string;
      readonly parts: readonly RecordedPart[];
    }[];
  };
  readonly output: {
    readonly text: string;
    readonly audio?: string;
    readonly audio_duration_ms?: number;
  };
  readonly timing: {
    readonly elapsed_ms?: number;
    readonly first_delta_ms?: number;
    readonly tokens?: number;
    readonly kv_cache_length?: number;
  };
  readonly stopped?: boolean;
  readonly failed?: boolean;
  readonly unfinished?: boolean;
}

export interface DuplexRecording {
  readonly mode: "duplex";
  readonly chunks: readonly RecordedChunk[];
  /** Why chunks are missing. */
  readonly orphan_results?: readonly RecordedUnit[];
  readonly events: readonly RecordingEvent[];
}

export interface TurnRecording {
  readonly mode: "half_duplex" | "chat";
  readonly turns: readonly RecordedTurn[];
  readonly events: readonly RecordingEvent[];
  readonly merged_replay_lead_ms?: number;
}

export type Recording = DuplexRecording | TurnRecording;

/** Base path of a recording's routes. `name` is a recording id or a share token. */
const path = (name: string) => `/api/sessions/${encodeURIComponent(name)}`;

/** Like all functions here, rejects with ApiError. */
export function recordingMeta(name: string): Promise<RecordingMeta> {
  return fetchJson(path(name));
}

/** Fails with 404 while the session runs. */
export function recordingTimeline(name: string): Promise<Recording> {
  return fetchJson(`${path(name)}/recording`);
}

/** Fails with 404 without a merged replay. */
export function recordingPeaks(name: string): Promise<RecordingPeaks> {
  return fetchJson(`${path(name)}/peaks`);
}

/** The file of the merged sound that this browser can play with the fewest bytes. Null without one. */
export function replayAudio(meta: RecordingMeta): string | null {
  const { merged_replay: wav = null, merged_replay_opus: opus } = meta;
  const plays = document.createElement("audio").canPlayType('audio/ogg; codecs="opus"') !== "";
  return opus && plays ? opus : wav;
}

/** Returns the URL of a file. Opening it may need a key. */
export function assetPath(name: string, file: string): string {
  return `${path(name)}/assets/${file.split("/").map(encodeURIComponent).join("/")}`;
}

/** A recording that the user's browser uploaded, stored as an asset. */
export interface BrowserUpload {
  readonly path: string;
  readonly size_bytes: number;
}

/** Resolves to null if nothing was uploaded. */
export async function browserUpload(name: string): Promise<BrowserUpload | null> {
  const found = await fetchJson<BrowserUpload | { path: null }>(`${path(name)}/upload-recording`);
  return found.path === null ? null : found;
}

/** Returns the URL of the ZIP of a recording. Opening it may need a key. */
export function archivePath(name: string): string {
  return `${path(name)}/download`;
}

export async function recordingComment(name: string): Promise<string> {
  return (await fetchJson<{ comment: string }>(`${path(name)}/comment`)).comment;
}

export async function saveComment(name: string, comment: string): Promise<void> {
  await fetchApi(`${path(name)}/comment`, { method: "POST", body: { comment } });
}

/** A link that gives read access to one recording. */
export interface ShareLink {
  readonly token: string;
  /** Path of the viewer page. */
  readonly url: string;
  /** Null if the link does not expire. */
  readonly expires_at: string | null;
}

export const WEEK_S = 7 * 86_400;

const sharesPath = (recordingId: string) =>
  `/api/sessions/${encodeURIComponent(recordingId)}/shares`;

/** Lists the active links of a recording, soonest expiry first. Rejects with ApiError. */
export async function shareLinks(recordingId: string): Promise<readonly ShareLink[]> {
  return (await fetchJson<{ shares: ShareLink[] }>(sharesPath(recordingId))).shares;
}

/**
 * Creates a link that is valid for `lastsS` seconds, or until it is revoked if null. Rejects with
 * ApiError.
 */
export function shareRecording(
  recordingId: string,
  lastsS: number | null = WEEK_S,
): Promise<ShareLink> {
  return fetchJson(sharesPath(recordingId), { method: "POST", body: { expires_in_s: lastsS } });
}

/** Rejects with ApiError. */
export async function revokeShare(recordingId: string, token: string): Promise<void> {
  await fetchJson(`${sharesPath(recordingId)}/${encodeURIComponent(token)}`, { method: "DELETE" });
}

/** Returns the URL to share. */
export function shareAddress(link: ShareLink): string {
  return new URL(link.url, location.href).href;
}

/** Whether `name` is a share token instead of a recording id. */
export function isShareToken(name: string): boolean {
  return name.startsWith("share_");
}
