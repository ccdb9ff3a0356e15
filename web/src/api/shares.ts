import { fetchJson } from "./http.ts";

/** A link that opens one recording, to read. */
export interface ShareLink {
  readonly token: string;
  /** Path of the viewer's page. */
  readonly url: string;
  /** Null: until it is revoked. */
  readonly expires_at: string | null;
}

export const WEEK_S = 7 * 86_400;

const path = (recordingId: string) => `/api/sessions/${encodeURIComponent(recordingId)}/shares`;

/** The links that open a recording now; those that expire first in front. Rejects with ApiError. */
export async function shareLinks(recordingId: string): Promise<readonly ShareLink[]> {
  return (await fetchJson<{ shares: ShareLink[] }>(path(recordingId))).shares;
}

/** Opens for `lastsS` seconds; null: until it is revoked. Rejects with ApiError. */
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

/** What one passes on. */
export function shareAddress(link: ShareLink): string {
  return new URL(link.url, location.href).href;
}
