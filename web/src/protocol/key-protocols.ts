import { PLAIN_PROTOCOL } from "./frames.ts";

const KEY_PREFIX = "antiphon.key.";

/** The subprotocols that carry an API key: browsers cannot send headers with a WebSocket. */
export function keyProtocols(key: string): string[] {
  return [PLAIN_PROTOCOL, `${KEY_PREFIX}${base64url(key)}`];
}

/** The key in `keyProtocols`. Undefined if there is none. */
export function keyIn(protocols: readonly string[]): string | undefined {
  const found = protocols.find((protocol) => protocol.startsWith(KEY_PREFIX));
  const text = found?.slice(KEY_PREFIX.length).replaceAll("-", "+").replaceAll("_", "/");
  return text && atob(text);
}

function base64url(text: string): string {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
