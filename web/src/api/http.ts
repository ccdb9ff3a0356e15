import { askForKey, type KeyRole, keyFor, keyHeaders } from "./key.ts";

/** A failed request. `status` is 0 if the server did not answer. */
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
  /** FormData is sent as it is, anything else as JSON. */
  readonly body?: unknown;
  readonly role?: KeyRole;
  readonly signal?: AbortSignal;
}

/**
 * Calls a route of the edge and returns its JSON. On 401 it asks the user for a key and retries
 * once. Rejects with ApiError, or with AbortError if `signal` aborts.
 */
export async function fetchJson<T>(path: string, options: ApiRequest = {}): Promise<T> {
  const response = await fetchApi(path, options);
  return (await response.json()) as T;
}

/** Like `fetchJson`, but returns the response with its body unread. Use it for files. */
export async function fetchApi(path: string, options: ApiRequest = {}): Promise<Response> {
  const role = options.role ?? "client";
  const key = keyFor(role);
  let response = await send(path, options, role);
  // The user has entered a key while this request, which had another one, was on its way.
  if (response.status === 401 && keyFor(role) !== key) response = await send(path, options, role);
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
    throw new ApiError(0, "unreachable", "cannot reach the server");
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
