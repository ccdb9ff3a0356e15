import { Store } from "../state/store.ts";

/** `client` opens conversations, `admin` everything. */
export type KeyRole = "client" | "admin";

/** Someone waits for a key; `refused` when one was given and did not open. */
export interface KeyRequest {
  readonly role: KeyRole;
  readonly refused: boolean;
  readonly answer: (given: boolean) => void;
}

/** What the key dialog shows; null most of the time. */
export const keyRequest = new Store<KeyRequest | null>(null);

const NAMES: Record<KeyRole, string> = { client: "antiphon.key", admin: "antiphon.admin" };
/** The admin token is forgotten with the tab. */
const STORES: Record<KeyRole, () => Storage> = {
  client: () => localStorage,
  admin: () => sessionStorage,
};

let asked: { role: KeyRole; answer: Promise<boolean> } | null = null;

export function saveKey(role: KeyRole, key: string): void {
  STORES[role]().setItem(NAMES[role], key);
}

export function deleteKey(role: KeyRole): void {
  STORES[role]().removeItem(NAMES[role]);
}

/** The key to send; the admin token opens what a client's key opens. */
export function keyFor(role: KeyRole): string | null {
  const admin = storedKey("admin");
  return role === "admin" ? admin : (storedKey("client") ?? admin);
}

function storedKey(role: KeyRole): string | null {
  return STORES[role]().getItem(NAMES[role]);
}

/** Headers for `fetch`. */
export function keyHeaders(role: KeyRole): Record<string, string> {
  const key = keyFor(role);
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

/** The second argument of `new WebSocket`: browsers send no headers with a socket. */
export function socketProtocols(role: KeyRole = "client"): string[] {
  const key = keyFor(role);
  return key === null ? [] : ["antiphon.v1", `antiphon.key.${base64url(key)}`];
}

/** Show the dialog; all who ask meanwhile get the same answer. False: the reader would not. */
export function askForKey(role: KeyRole): Promise<boolean> {
  if (asked?.role === role) return asked.answer;
  let settle: (given: boolean) => void = () => undefined;
  const answer = new Promise<boolean>((resolve) => {
    settle = resolve;
  });
  asked = { role, answer };
  keyRequest.set({
    role,
    refused: storedKey(role) !== null,
    answer: (given) => finish(given, settle),
  });
  return answer;
}

function finish(given: boolean, settle: (given: boolean) => void): void {
  keyRequest.set(null);
  asked = null;
  settle(given);
}

function base64url(text: string): string {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
