import type { Recording, RecordingMeta, ShareLink, WaveformPeaks } from "./answers.ts";
import * as answers from "./answers.ts";
import { fetchApi, fetchJson } from "./http.ts";
import { siteUrl } from "./site.ts";

/** Base path of a recording's routes. `name` is a recording id or a share token. */
const path = (name: string) => `/api/sessions/${encodeURIComponent(name)}`;

/** Like all functions here, rejects with ApiError. */
export function recordingMeta(name: string): Promise<RecordingMeta> {
  return fetchJson(path(name), answers.recordingMeta);
}

/** Fails with 404 while the session runs. */
export function recordingTimeline(name: string): Promise<Recording> {
  return fetchJson(`${path(name)}/recording`, answers.recording);
}

/** Fails with 404 without a merged replay. */
export function recordingPeaks(name: string): Promise<WaveformPeaks> {
  return fetchJson(`${path(name)}/peaks`, answers.waveformPeaks);
}

/** The file of the merged sound that this browser can play with the fewest bytes. Null without one. */
export function replayAudio(meta: RecordingMeta): string | null {
  const { merged_replay: wav = null, merged_replay_opus: opus } = meta;
  const plays = document.createElement("audio").canPlayType('audio/ogg; codecs="opus"') !== "";
  return opus && plays ? opus : wav;
}

/** Returns the path of a file. Opening it may need a key. */
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
  const found = await fetchJson(`${path(name)}/upload-recording`, answers.uploadInfo);
  if (found.path == null) return null;
  return { path: found.path, size_bytes: found.size_bytes ?? 0 };
}

/** Returns the path of the ZIP of a recording. Opening it may need a key. */
export function archivePath(name: string): string {
  return `${path(name)}/download`;
}

export async function recordingComment(name: string): Promise<string> {
  return (await fetchJson(`${path(name)}/comment`, answers.recordingComment)).comment;
}

export async function saveComment(name: string, comment: string): Promise<void> {
  await fetchApi(`${path(name)}/comment`, { method: "POST", body: { comment } });
}

export const WEEK_S = 7 * 86_400;

const sharesPath = (recordingId: string) =>
  `/api/sessions/${encodeURIComponent(recordingId)}/shares`;

/** Lists the active links of a recording, soonest expiry first. Rejects with ApiError. */
export async function shareLinks(recordingId: string): Promise<readonly ShareLink[]> {
  return (await fetchJson(sharesPath(recordingId), answers.shareLinkList)).shares;
}

/**
 * Creates a link that is valid for `lastsS` seconds, or until it is revoked if null. Rejects with
 * ApiError.
 */
export function shareRecording(
  recordingId: string,
  lastsS: number | null = WEEK_S,
): Promise<ShareLink> {
  const options = { method: "POST", body: { expires_in_s: lastsS } } as const;
  return fetchJson(sharesPath(recordingId), answers.shareLink, options);
}

/** Rejects with ApiError. */
export async function revokeShare(recordingId: string, token: string): Promise<void> {
  await fetchApi(`${sharesPath(recordingId)}/${encodeURIComponent(token)}`, { method: "DELETE" });
}

/** Returns the URL to share. */
export function shareAddress(link: ShareLink): string {
  return new URL(siteUrl(link.url), location.href).href;
}

/** Whether `name` is a share token instead of a recording id. */
export function isShareToken(name: string): boolean {
  return name.startsWith("share_");
}
