import { fetchJson } from "./http.ts";

/** A link that gives read access to one recording. */
export interface ShareLink {
  readonly token: string;
  /** Path of the viewer page. */
  readonly url: string;
  /** Null if the link does not expire. */
  readonly expires_at: string | null;
}

export const WEEK_S = 7 * 86_400;

const path = (recordingId: string) => `/api/sessions/${encodeURIComponent(recordingId)}/shares`;

/** Lists the active links of a recording, soonest expiry first. Rejects with ApiError. */
export async function shareLinks(recordingId: string): Promise<readonly ShareLink[]> {
  return (await fetchJson<{ shares: ShareLink[] }>(path(recordingId))).shares;
}

/**
 * Creates a link that is valid for `lastsS` seconds, or until it is revoked if null. Rejects with
 * ApiError.
 */
export function shareRecording(
  recordingId: string,
  lastsS: number | null = WEEK_S,
): Promise<ShareLink> {
  return fetchJson(path(recordingId), { method: "POST", body: { expires_in_s: lastsS } });
}

/** Rejects with ApiError. */
export async function revokeShare(recordingId: string, token: string): Promise<void> {
  await fetchJson(`${path(recordingId)}/${encodeURIComponent(token)}`, { method: "DELETE" });
}

/** Returns the URL to share. */
export function shareAddress(link: ShareLink): string {
  return new URL(link.url, location.href).href;
}

/** Whether `name` is a share token instead of a recording id. */
export function isShareToken(name: string): boolean {
  return name.startsWith("share_");
}
