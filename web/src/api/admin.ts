import { fetchApi, fetchJson } from "./http.ts";

const admin = { role: "admin" } as const;

export type SessionKind = "chat" | "half_duplex_audio" | "audio_duplex" | "omni_duplex";
export type RecordingState = "recording" | "complete" | "interrupted";

/** A page or protocol that can be switched off. */
export interface AppSwitch {
  readonly app_id: string;
  readonly name: string;
  readonly route: string;
  readonly enabled: boolean;
}

/** Assumed length of a session of each kind in seconds, used until enough sessions are measured. */
export interface Baselines {
  readonly eta_chat_s: number;
  readonly eta_half_duplex_s: number;
  readonly eta_audio_duplex_s: number;
  readonly eta_omni_duplex_s: number;
  /** Weight of a new sample, above 0 up to 1. */
  readonly ema_alpha: number;
}

export type EtaName = "chat" | "half_duplex" | "audio_duplex" | "omni_duplex";

export type Estimates = { readonly config: Baselines } & {
  readonly [Name in `ema_${EtaName}_s`]: number | null;
} & { readonly [Name in `ema_${EtaName}_samples`]: number };

export interface RecordingInfo {
  readonly id: string;
  readonly session_id: string;
  readonly app_type: SessionKind;
  readonly state: RecordingState;
  readonly reason: string | null;
  readonly created_at: string;
  readonly duration_s: number | null;
  readonly worker_id: string;
  readonly chunks: number | null;
  readonly turns: number | null;
  /** Empty until the session has ended, and in recordings of earlier versions. */
  readonly first_words: string;
  readonly size_bytes: number;
  /** URL of the viewer page. */
  readonly url: string;
}

export interface RecordingPage {
  readonly total: number;
  /** False if only the newest recordings were searched. */
  readonly complete: boolean;
  readonly sessions: readonly RecordingInfo[];
}

/** Empty fields do not filter. */
export interface RecordingFilter {
  readonly kind: SessionKind | "";
  readonly state: RecordingState | "";
  /** ISO dates with time zone. */
  readonly since: string;
  readonly until: string;
  readonly text: string;
}

/** Opens the event stream of live changes. It stays open until `signal` aborts it. */
export function liveStream(signal: AbortSignal): Promise<Response> {
  return fetchApi("/api/admin/live", { ...admin, signal });
}

/** Returns false if the ticket is no longer in the queue. */
export async function cancelTicket(ticket: string): Promise<boolean> {
  const path = `/api/queue/${encodeURIComponent(ticket)}`;
  return (await fetchJson<{ success: boolean }>(path, { ...admin, method: "DELETE" })).success;
}

export async function drainWorker(id: string): Promise<void> {
  await fetchJson(`/api/admin/workers/${encodeURIComponent(id)}/drain`, {
    ...admin,
    method: "POST",
  });
}

export async function appSwitches(): Promise<readonly AppSwitch[]> {
  return (await fetchJson<{ apps: AppSwitch[] }>("/api/admin/apps", admin)).apps;
}

export async function setAppEnabled(id: string, enabled: boolean): Promise<AppSwitch> {
  const path = `/api/admin/apps/${encodeURIComponent(id)}`;
  return (await fetchJson<{ app: AppSwitch }>(path, { ...admin, method: "PUT", body: { enabled } }))
    .app;
}

export function estimates(): Promise<Estimates> {
  return fetchJson("/api/config/eta", admin);
}

export function setBaselines(baselines: Baselines): Promise<Estimates> {
  return fetchJson("/api/config/eta", { ...admin, method: "PUT", body: baselines });
}

export function recordings(
  filter: RecordingFilter,
  offset: number,
  limit: number,
): Promise<RecordingPage> {
  const given = Object.entries(filter).filter(([, value]) => value !== "");
  const query = new URLSearchParams([
    ...given,
    ["offset", String(offset)],
    ["limit", String(limit)],
  ]);
  return fetchJson(`/api/sessions?${query}`, admin);
}

/** Fails with 409 while it is recorded or merged, and with 404 if it was deleted before. */
export async function deleteRecording(id: string): Promise<void> {
  await fetchApi(`/api/sessions/${encodeURIComponent(id)}`, { ...admin, method: "DELETE" });
}

/** Downloads a recording as a ZIP. */
export async function recordingArchive(id: string): Promise<Blob> {
  const path = `/api/sessions/${encodeURIComponent(id)}/download`;
  return (await fetchApi(path, admin)).blob();
}
