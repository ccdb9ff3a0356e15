import { PLAIN_PROTOCOL } from "./frames.ts";

/** Returns the WebSocket URL of `path` on this server or on `base`. */
export function socketUrl(path: string, base: string = location.href): URL {
  const url = new URL(path, base);
  url.protocol = url.protocol === "https:" || url.protocol === "wss:" ? "wss:" : "ws:";
  return url;
}

/** Returns a unique id: time and 48 random bits. The prefix is the kind of session. */
export function newSessionId(prefix: "adx" | "omni" | "hdx"): string {
  const random = crypto.getRandomValues(new Uint8Array(6));
  const hex = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${prefix}_${Date.now().toString(36)}_${hex}`;
}

/** Adds `extra` before the subprotocols. The plain protocol is always included. */
export function withProtocol(extra: string, protocols: readonly string[]): string[] {
  const rest = protocols.includes(PLAIN_PROTOCOL) ? protocols : [PLAIN_PROTOCOL, ...protocols];
  return [extra, ...rest];
}
