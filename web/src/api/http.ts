import { askForKey, type KeyRole, keyHeaders } from "./key.ts";

/** Why a request failed. `status` 0: no answer at all. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }
}

export interface ApiRequest {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Sent as JSON; a form as it is. */
  readonly body?: unknown;
  readonly role?: KeyRole;
  readonly signal?: AbortSignal;
}

/**
 * ApiRequest a route of the edge and read its JSON. Where a key is wanted the reader is asked for one,
 * once. Rejects with ApiError, or with AbortError when `signal` says so.
 */
export async function fetchJson<T>(path: string, options: ApiRequest = {}): Promise<T> {
  const response = await fetchApi(path, options);
  return (await response.json()) as T;
}

/** As `call`, with the body unread: for files. */
export async function fetchApi(path: string, options: ApiRequest = {}): Promise<Response> {
  const role = options.role ?? "client";
  const response = await send(path, options, role);
  if (response.status !== 401 || !(await askForKey(role))) return accepted(response);
  return accepted(await send(path, options, role));
}

async function send(path: string, options: ApiRequest, role: KeyRole): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...keyHeaders(role) };
  const init: RequestInit = { method: options.method ?? "GET", headers };
  if (options.body instanceof FormData) init.body = options.body;
  else if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  if (options.signal) init.signal = options.signal;
  try {
    return await fetch(path, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "the server does not answer");
  }
}

async function accepted(response: Response): Promise<Response> {
  if (response.ok) return response;
  const problem: unknown = await response.json().catch(() => null);
  const text = word(problem, "message") ?? word(problem, "error") ?? response.statusText;
  throw new ApiError(response.status, word(problem, "code") ?? `http_${response.status}`, text);
}

function word(problem: unknown, name: string): string | null {
  if (typeof problem !== "object" || problem === null || !(name in problem)) return null;
  const value = (problem as Record<string, unknown>)[name];
  return typeof value === "string" ? value : null;
}
