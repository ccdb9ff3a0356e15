import { PLAIN_PROTOCOL } from "./frames.ts";

/** The subprotocols that carry an API key: browsers cannot send headers with a WebSocket. */
export function keyProtocols(key: string): string[] {
  return [PLAIN_PROTOCOL, `antiphon.key.${base64url(key)}`];
}

function base64url(text: string): string {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
