import type { GenericSchema } from "valibot";
import { siteUrl } from "../api/site.ts";
import { TypedEvents } from "../state/store.ts";
import type {
  ChatClientMessage,
  DuplexClientMessage,
  HalfDuplexClientMessage,
} from "./client-messages.ts";
import { BINARY_PROTOCOL, PLAIN_PROTOCOL } from "./frames.ts";
import { keyIn } from "./key-protocols.ts";
import { InvalidMessage, readMessage } from "./message-reader.ts";
import {
  ResumableSocket,
  type SocketClose,
  type SocketOptions,
  type SocketState,
} from "./resumable-socket.ts";
import {
  type ChatServerMessage,
  chatServerMessage,
  type DuplexServerMessage,
  duplexServerMessage,
  type HalfDuplexServerMessage,
  halfDuplexServerMessage,
} from "./server-messages.ts";

/**
 * Returns the WebSocket URL of a path of the server whose home page is `home`. The address of a
 * folder may lack its last slash.
 */
export function socketUrl(path: string, home?: string): URL {
  const url = home ? new URL(home) : new URL(siteUrl(path), location.href);
  if (home) {
    if (!/(\/|\.html?)$/.test(url.pathname)) url.pathname += "/";
    url.href = new URL(`.${path}`, url).href;
  }
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
function withProtocol(extra: string, protocols: readonly string[]): string[] {
  const rest = protocols.includes(PLAIN_PROTOCOL) ? protocols : [PLAIN_PROTOCOL, ...protocols];
  return [extra, ...rest];
}

export interface ClientEvents<Server> {
  /** A validated message of a known type. */
  message: Server;
  /** A message that the page sends. */
  sent: object;
  connection: SocketState;
  /** Sound that waited for a connection for too long. It is not sent. */
  dropped: object;
  /** The server sent an invalid message. The session continues. */
  problem: string;
  closed: SocketClose;
}

interface ProtocolSpec<Server> {
  schema: GenericSchema<unknown, Server>;
  /** Whether this message ends the session. */
  ends: (message: Server) => boolean;
}

const ANSWER_MS = 4000;

/** What servers and proxies answer to a request for a WebSocket that has lost its `Upgrade`. */
const NOT_UPGRADED: ReadonlySet<number> = new Set([400, 404, 405, 426]);

/** The error of an edge. */
interface Refusal {
  readonly code: string;
  readonly message: string;
}

/** A connection with typed messages. */
export class ProtocolClient<Server, Client extends object> extends TypedEvents<
  ClientEvents<Server>
> {
  readonly #url: URL;
  readonly #protocols: readonly string[];
  readonly #socket: ResumableSocket;
  readonly #spec: ProtocolSpec<Server>;

  constructor(url: URL, spec: ProtocolSpec<Server>, options: SocketOptions = {}) {
    super();
    this.#url = url;
    this.#protocols = options.protocols ?? [];
    this.#spec = spec;
    this.#socket = new ResumableSocket(url, options);
    this.#socket.on("message", (message) => this.#receive(message));
    this.#socket.on("state", (state) => this.emit("connection", state));
    this.#socket.on("dropped", (message) => this.emit("dropped", message));
    this.#socket.on("problem", (problem) => this.emit("problem", problem));
    this.#socket.on("closed", (closed) => this.emit("closed", closed));
  }

  get connection(): SocketState {
    return this.#socket.state;
  }

  /** When reconnecting stops, `performance.now()`. */
  get deadline(): number {
    return this.#socket.deadline;
  }

  /** Reconnects at once instead of waiting for the next attempt. */
  retryNow(): void {
    this.#socket.retryNow();
  }

  send(message: Client): void {
    this.emit("sent", message);
    this.#socket.send(message);
  }

  /**
   * Like `send`, for `ms` of sound. While the connection is lost, only the newest three seconds are kept.
   */
  sendPerishable(message: Client, ms: number): void {
    this.emit("sent", message);
    this.#socket.send(message, { perishableMs: ms });
  }

  /** Replaces a connection that seems dead, if the session can be resumed. */
  reconnect(): void {
    this.#socket.reconnect();
  }

  /** Closes at once. It stops a session that the server would keep for a resume. */
  close(): void {
    this.#socket.close();
  }

  /**
   * Why the server refuses WebSockets, as its answer to a plain request for the same path shows:
   * browsers do not say it. Null if the server is unreachable.
   */
  async refusal(): Promise<Refusal | null> {
    const url = new URL(this.#url);
    url.protocol = url.protocol.replace("ws", "http");
    try {
      const response = await fetch(url, { method: "POST", signal: AbortSignal.timeout(ANSWER_MS) });
      if (NOT_UPGRADED.has(response.status)) {
        return (await this.#keyRefusal(url)) ?? { code: "no_websockets", message: "" };
      }
      return response.status === 403 ? ((await response.json()) as Refusal) : null;
    } catch {
      return null; // unreachable, as the WebSocket, or not an answer of an edge
    }
  }

  /** Null if the key is not refused. An edge that misses `Upgrade` does not look at the key. */
  async #keyRefusal(socket: URL): Promise<Refusal | null> {
    const home = socket.pathname.slice(0, socket.pathname.lastIndexOf("/ws/"));
    const url = new URL(`${home}/api/capabilities`, socket);
    try {
      const key = keyIn(this.#protocols);
      const headers: Record<string, string> = key === undefined ? {} : { "X-Api-Key": key };
      const response = await fetch(url, { headers, signal: AbortSignal.timeout(ANSWER_MS) });
      return response.status === 401 ? ((await response.json()) as Refusal) : null;
    } catch {
      return null;
    }
  }

  #receive(value: Readonly<Record<string, unknown>>): void {
    const message = this.#read(value);
    if (message === undefined) return;
    if (this.#spec.ends(message)) this.#socket.finish();
    this.emit("message", message);
  }

  #read(value: Readonly<Record<string, unknown>>): Server | undefined {
    try {
      return readMessage(this.#spec.schema, value);
    } catch (error) {
      if (!(error instanceof InvalidMessage)) throw error;
      this.emit("problem", `the server sent a message that cannot be used: ${error.message}`);
      return undefined;
    }
  }
}

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

export function connectDuplex(sessionId: string, options: ClientOptions = {}): DuplexClient {
  const ends = ({ type }: DuplexServerMessage): boolean => type === "stopped" || type === "timeout";
  const spec = { schema: duplexServerMessage, ends };
  return connect(`/ws/duplex/${sessionId}?notices=1&transcript=1&word_times=1`, spec, options);
}

export function connectHalfDuplex(
  sessionId: string,
  options: ClientOptions = {},
): HalfDuplexClient {
  const ends = ({ type }: HalfDuplexServerMessage): boolean =>
    type === "stopped" || type === "timeout";
  const spec = { schema: halfDuplexServerMessage, ends };
  return connect(`/ws/half_duplex/${sessionId}?transcript=1`, spec, options);
}

export function connectChat(options: ClientOptions = {}): ChatClient {
  const ends = ({ type }: ChatServerMessage): boolean => type === "done";
  return connect("/ws/chat?progress=1", { schema: chatServerMessage, ends }, options);
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
