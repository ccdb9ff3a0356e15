import type {
  AppInfo,
  EtaConfig,
  EtaReport,
  RecordingPage,
  RecordingState,
  SessionKind,
} from "./answers.ts";
import * as answers from "./answers.ts";
import { fetchApi, fetchJson } from "./http.ts";

const admin = { role: "admin" } as const;

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
  const options = { ...admin, method: "DELETE" } as const;
  return (await fetchJson(path, answers.actionResult, options)).success;
}

export async function drainWorker(id: string): Promise<void> {
  await fetchApi(`/api/admin/workers/${encodeURIComponent(id)}/drain`, {
    ...admin,
    method: "POST",
  });
}

export async function appSwitches(): Promise<readonly AppInfo[]> {
  return (await fetchJson("/api/admin/apps", answers.appList, admin)).apps;
}

export async function setAppEnabled(id: string, enabled: boolean): Promise<AppInfo> {
  const path = `/api/admin/apps/${encodeURIComponent(id)}`;
  const options = { ...admin, method: "PUT", body: { enabled } } as const;
  return (await fetchJson(path, answers.appSwitched, options)).app;
}

export function estimates(): Promise<EtaReport> {
  return fetchJson("/api/config/eta", answers.etaReport, admin);
}

export function setBaselines(baselines: EtaConfig): Promise<EtaReport> {
  const options = { ...admin, method: "PUT", body: baselines } as const;
  return fetchJson("/api/config/eta", answers.etaReport, options);
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
  return fetchJson(`/api/sessions?${query}`, answers.recordingPage, admin);
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
