import { socketUrl, withProtocol } from "./address.ts";
import {
  type ChatClientMessage,
  type ChatServerMessage,
  readChatMessage,
} from "./chat-messages.ts";
import {
  type DuplexClientMessage,
  type DuplexServerMessage,
  readDuplexMessage,
} from "./duplex-messages.ts";
import { BINARY_PROTOCOL } from "./frames.ts";
import {
  type HalfDuplexClientMessage,
  type HalfDuplexServerMessage,
  readHalfDuplexMessage,
} from "./half-duplex-messages.ts";
import { ProtocolClient, type ProtocolSpec } from "./protocol-client.ts";
import {
  type RealtimeClientMessage,
  type RealtimeServerMessage,
  readRealtimeMessage,
} from "./realtime-messages.ts";
import type { SocketOptions } from "./resumable-socket.ts";

/** One client for each protocol. */
export interface ClientOptions extends SocketOptions {
  /** Another server than the one of the page. */
  base?: string;
  /**
   * Send audio as 16-bit bytes and images as bytes. This needs a third of the size of base64
   * float32.
   */
  binary?: boolean;
}

export type DuplexClient = ProtocolClient<DuplexServerMessage, DuplexClientMessage>;
export type HalfDuplexClient = ProtocolClient<HalfDuplexServerMessage, HalfDuplexClientMessage>;
export type ChatClient = ProtocolClient<ChatServerMessage, ChatClientMessage>;
export type RealtimeClient = ProtocolClient<RealtimeServerMessage, RealtimeClientMessage>;

export function connectDuplex(sessionId: string, options: ClientOptions = {}): DuplexClient {
  const ends = ({ type }: DuplexServerMessage): boolean => type === "stopped" || type === "timeout";
  const spec = { read: readDuplexMessage, ends };
  return connect(`/ws/duplex/${sessionId}?notices=1&transcript=1`, spec, options);
}

export function connectHalfDuplex(
  sessionId: string,
  options: ClientOptions = {},
): HalfDuplexClient {
  const ends = ({ type }: HalfDuplexServerMessage): boolean =>
    type === "stopped" || type === "timeout";
  const spec = { read: readHalfDuplexMessage, ends };
  return connect(`/ws/half_duplex/${sessionId}?transcript=1`, spec, options);
}

export function connectChat(options: ClientOptions = {}): ChatClient {
  const ends = ({ type }: ChatServerMessage): boolean => type === "done";
  return connect("/ws/chat?progress=1", { read: readChatMessage, ends }, options);
}

export function connectRealtime(
  mode: "audio" | "video",
  options: ClientOptions = {},
): RealtimeClient {
  const ends = ({ type }: RealtimeServerMessage): boolean => type === "session.closed";
  const spec = { read: readRealtimeMessage, ends };
  return connect(`/v1/realtime?mode=${mode}&notices=1&playback_ack=1`, spec, options);
}

function connect<Server, Client extends object>(
  path: string,
  spec: ProtocolSpec<Server>,
  { base, binary = true, protocols = [], ...connection }: ClientOptions,
): ProtocolClient<Server, Client> {
  const url = socketUrl(path, base);
  if (!binary) return new ProtocolClient(url, spec, { protocols, ...connection });
  url.searchParams.set("pcm", "s16");
  const offered = withProtocol(BINARY_PROTOCOL, protocols);
  return new ProtocolClient(url, spec, { protocols: offered, ...connection });
}
