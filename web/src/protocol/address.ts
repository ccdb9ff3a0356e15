import { PLAIN_PROTOCOL } from "./frames.ts";

/** The WebSocket of `path` on the server that this page came from, or on `base`. */
export function socketUrl(path: string, base: string = location.href): URL {
  const url = new URL(path, base);
  url.protocol = url.protocol === "https:" || url.protocol === "wss:" ? "wss:" : "ws:";
  return url;
}

/** Unlike any other: time and 48 random bits. The prefix says what kind of session it is. */
export function newSessionId(prefix: "adx" | "omni" | "hdx"): string {
  const random = crypto.getRandomValues(new Uint8Array(6));
  const hex = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${prefix}_${Date.now().toString(36)}_${hex}`;
}

/** A key's subprotocols come with the plain one; `extra` goes in front, and the plain one never misses. */
export function withProtocol(extra: string, protocols: readonly string[]): string[] {
  const rest = protocols.includes(PLAIN_PROTOCOL) ? protocols : [PLAIN_PROTOCOL, ...protocols];
  return [extra, ...rest];
}
