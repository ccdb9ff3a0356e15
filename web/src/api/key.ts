import { Store } from "../state/store.ts";

/** `client` opens conversations, `admin` everything. */
export type Role = "client" | "admin";

/** Someone waits for a key; `refused` when one was given and did not open. */
export interface KeyRequest {
  readonly role: Role;
  readonly refused: boolean;
  readonly answer: (given: boolean) => void;
}

/** What the key dialog shows; null most of the time. */
export const keyRequest = new Store<KeyRequest | null>(null);

const NAMES: Record<Role, string> = { client: "antiphon.key", admin: "antiphon.admin" };
/** The admin token is forgotten with the tab. */
const SHELVES: Record<Role, () => Storage> = {
  client: () => localStorage,
  admin: () => sessionStorage,
};

let asked: { role: Role; answer: Promise<boolean> } | null = null;

export function keep(role: Role, key: string): void {
  SHELVES[role]().setItem(NAMES[role], key);
}

export function forget(role: Role): void {
  SHELVES[role]().removeItem(NAMES[role]);
}

/** The key to send; the admin token opens what a client's key opens. */
export function keyFor(role: Role): string | null {
  const admin = kept("admin");
  return role === "admin" ? admin : (kept("client") ?? admin);
}

function kept(role: Role): string | null {
  return SHELVES[role]().getItem(NAMES[role]);
}

/** Headers for `fetch`. */
export function keyHeaders(role: Role): Record<string, string> {
  const key = keyFor(role);
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

/** The second argument of `new WebSocket`: browsers send no headers with a socket. */
export function socketProtocols(role: Role = "client"): string[] {
  const key = keyFor(role);
  return key === null ? [] : ["antiphon.v1", `antiphon.key.${base64url(key)}`];
}

/** Show the dialog; all who ask meanwhile get the same answer. False: the reader would not. */
export function askForKey(role: Role): Promise<boolean> {
  if (asked?.role === role) return asked.answer;
  let settle: (given: boolean) => void = () => undefined;
  const answer = new Promise<boolean>((resolve) => {
    settle = resolve;
  });
  asked = { role, answer };
  keyRequest.set({ role, refused: kept(role) !== null, answer: (given) => finish(given, settle) });
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
