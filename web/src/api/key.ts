import { Store } from "../state/store.ts";

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
/** sessionStorage drops the admin token when the tab closes. */
const STORES: Record<KeyRole, () => Storage> = {
  client: () => localStorage,
  admin: () => sessionStorage,
};

let pending: { role: KeyRole; answer: Promise<boolean> } | null = null;

export function saveKey(role: KeyRole, key: string): void {
  STORES[role]().setItem(NAMES[role], key);
}

export function deleteKey(role: KeyRole): void {
  STORES[role]().removeItem(NAMES[role]);
}

/** Returns the key to send. The admin token also works where a client key is needed. */
export function keyFor(role: KeyRole): string | null {
  const admin = storedKey("admin");
  return role === "admin" ? admin : (storedKey("client") ?? admin);
}

function storedKey(role: KeyRole): string | null {
  return STORES[role]().getItem(NAMES[role]);
}

/** Returns headers for `fetch`. */
export function keyHeaders(role: KeyRole): Record<string, string> {
  const key = keyFor(role);
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

/**
 * Returns the second argument of `new WebSocket`. Browsers cannot send headers with a WebSocket.
 */
export function socketProtocols(role: KeyRole = "client"): string[] {
  const key = keyFor(role);
  return key === null ? [] : ["antiphon.v1", `antiphon.key.${base64url(key)}`];
}

/**
 * Opens the key dialog. Concurrent callers share one dialog. Resolves to false if the user
 * cancels.
 */
export function askForKey(role: KeyRole): Promise<boolean> {
  if (pending?.role === role) return pending.answer;
  let settle: (given: boolean) => void = () => undefined;
  const answer = new Promise<boolean>((resolve) => {
    settle = resolve;
  });
  pending = { role, answer };
  keyRequest.set({
    role,
    refused: storedKey(role) !== null,
    answer: (given) => finish(given, settle),
  });
  return answer;
}

function finish(given: boolean, settle: (given: boolean) => void): void {
  keyRequest.set(null);
  pending = null;
  settle(given);
}

function base64url(text: string): string {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
