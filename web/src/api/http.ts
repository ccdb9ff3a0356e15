import * as v from "valibot";
import { keyProtocols } from "../protocol/key-protocols.ts";
import { Store } from "../state/store.ts";
import { type BrowserValues, localValues, tabValues } from "../storage/browser-values.ts";
import { siteUrl } from "./site.ts";

/** `client` opens sessions, `admin` may do everything. */
export type KeyRole = "client" | "admin";

/** A pending request for a key. `refused` is true if the last key was rejected. */
export interface KeyRequest {
  readonly role: KeyRole;
  readonly refused: boolean;
  readonly answer: (given: boolean) => void;
}

/** The request that the key dialog shows, or null. */
export const keyRequest = new Store<KeyRequest | null>(null);

const NAMES: Record<KeyRole, string> = { client: "antiphon.key", admin: "antiphon.admin" };
/** The browser drops the admin token when the tab closes. */
const STORES: Record<KeyRole, BrowserValues> = { client: localValues, admin: tabValues };

/** Characters of a key, for the attribute `pattern`. */
export const KEY_PATTERN = "[!-~]+";
const VALID_KEY = new RegExp(`^${KEY_PATTERN}$`);

const asking = new Map<KeyRole, Promise<boolean>>();
/** How often the user has cancelled the dialog. */
const cancels: Record<KeyRole, number> = { client: 0, admin: 0 };
/** The same at the last press of the user: all requests that follow it share one refusal. */
let cancelsBefore = { ...cancels };
const onPress = (): void => {
  cancelsBefore = { ...cancels };
};
for (const press of ["pointerdown", "keydown"]) {
  globalThis.addEventListener?.(press, onPress, { capture: true });
}
/** Resolves when the dialog is free. */
let dialogFree: Promise<unknown> = Promise.resolve();

export function saveKey(role: KeyRole, key: string): void {
  STORES[role].set(NAMES[role], key);
}

export function deleteKey(role: KeyRole): void {
  STORES[role].delete(NAMES[role]);
}

/** Returns the key to send. The admin token also works where a client key is needed. */
export function keyFor(role: KeyRole): string | null {
  const admin = storedKey("admin");
  return role === "admin" ? admin : (storedKey("client") ?? admin);
}

/** Null also for a key with other characters: the browser would refuse to send it. */
function storedKey(role: KeyRole): string | null {
  const key = STORES[role].get(NAMES[role]);
  return key !== null && VALID_KEY.test(key) ? key : null;
}

/** Returns headers for `fetch`. */
function keyHeaders(role: KeyRole): Record<string, string> {
  const key = keyFor(role);
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

/**
 * Returns the second argument of `new WebSocket`. Browsers cannot send headers with a WebSocket.
 */
export function socketProtocols(role: KeyRole = "client"): string[] {
  const key = keyFor(role);
  return key === null ? [] : keyProtocols(key);
}

/** Opens the key dialog. Reloads the page with the key that the user enters. */
export async function enterKey(role: KeyRole = "client"): Promise<void> {
  if (await askForKey(role)) location.reload();
}

/**
 * Opens the key dialog. Concurrent callers of one role share one dialog, and the other role waits
 * for its end. Resolves to false if the user cancels.
 */
function askForKey(role: KeyRole): Promise<boolean> {
  let answer = asking.get(role);
  if (answer === undefined) {
    const key = keyFor(role);
    // The admin token that the user enters first may answer for both roles.
    answer = dialogFree.then(() => keyFor(role) !== key || ask(role));
    dialogFree = answer;
    asking.set(role, answer);
    void answer.then(() => asking.delete(role));
  }
  return answer;
}

function ask(role: KeyRole): Promise<boolean> {
  return new Promise((resolve) => {
    keyRequest.set({
      role,
      refused: storedKey(role) !== null,
      answer: (given) => {
        if (!given) cancels[role] += 1;
        keyRequest.set(null);
        resolve(given);
      },
    });
  });
}

/** `code` of an answer that has another form than the page expects. */
export const INVALID_ANSWER = "invalid_answer";

/** A failed request. `status` is 0 if the server did not answer. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** The key that a request with status 401 needs. */
  readonly role: KeyRole;

  constructor(status: number, code: string, message: string, role: KeyRole = "client") {
    super(message);
    this.role = role;
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }
}

interface ApiRequest {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** FormData is sent as it is, anything else as JSON. */
  readonly body?: unknown;
  readonly role?: KeyRole;
  readonly signal?: AbortSignal;
}

/**
 * Calls a route of the edge and checks its JSON. On 401 it asks the user for a key, until the edge
 * accepts one or the user cancels. Rejects with ApiError, or with AbortError if `signal` aborts.
 */
export async function fetchJson<Answer>(
  path: string,
  schema: v.GenericSchema<unknown, Answer>,
  options: ApiRequest = {},
): Promise<Answer> {
  const response = await fetchApi(path, options);
  const answer: unknown = await response.json().catch((error: unknown) => {
    if (error instanceof SyntaxError) return undefined; // reported below
    throw error;
  });
  const { success, output, issues } = v.safeParse(schema, answer, { abortEarly: true });
  if (success) return output;
  const field = v.getDotPath(issues[0]);
  const problem = field === null ? "the answer is not valid" : `${field} is missing or wrong`;
  throw new ApiError(response.status, INVALID_ANSWER, `${path.split("?")[0]}: ${problem}`);
}

/** Like `fetchJson`, but returns the response with its body unread. Use it for files. */
export async function fetchApi(path: string, options: ApiRequest = {}): Promise<Response> {
  const role = options.role ?? "client";
  for (;;) {
    const [key, cancelled] = [keyFor(role), cancelsBefore[role]];
    const response = await send(path, options, role);
    if (response.status !== 401) return accepted(response, role);
    // The user may have entered another key, or cancelled, while this request was on its way.
    if (keyFor(role) !== key) continue;
    if (cancels[role] !== cancelled || !(await askForKey(role))) return accepted(response, role);
  }
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
    return await fetch(siteUrl(path), init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "cannot reach the server");
  }
}

async function accepted(response: Response, role: KeyRole): Promise<Response> {
  if (response.ok) return response;
  const problem: unknown = await response.json().catch(() => null);
  const text = word(problem, "message") ?? word(problem, "error") ?? response.statusText;
  throw new ApiError(
    response.status,
    word(problem, "code") ?? `http_${response.status}`,
    text,
    role,
  );
}

function word(problem: unknown, name: string): string | null {
  if (typeof problem !== "object" || problem === null || !(name in problem)) return null;
  const value = (problem as Record<string, unknown>)[name];
  return typeof value === "string" ? value : null;
}
