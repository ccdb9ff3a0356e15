import { TypedEvents } from "../typed-events.ts";
import { backoffMs } from "./backoff.ts";
import { isRecord } from "./field-readers.ts";
import { BINARY_PROTOCOL, decodeFrame, encodeFrame, encodeText } from "./frames.ts";
import { SendQueue } from "./send-queue.ts";

/** How long the server keeps a session for a client that lost its connection, ms. */
export const RESUME_WINDOW_MS = 15_000;

const ATTEMPT_MS = 4000; // an attempt that hears nothing for so long is given up
const FINAL_CODES: ReadonlySet<number> = new Set([
  1000, 1002, 1003, 1007, 1008, 1009, 1011, 4409, 4410,
]);

/** `reconnecting`: the session lives on and this page tries to reach it. */
export type SocketState = "connecting" | "open" | "reconnecting" | "closed";

export interface SocketClose {
  /** Of the WebSocket's close; 1006 when there was none. */
  code: number;
  reason: string;
}

export interface SocketEvents {
  state: SocketState;
  message: Readonly<Record<string, unknown>>;
  /** A frame could not be read. */
  problem: string;
  closed: SocketClose;
}

export interface SocketOptions {
  /** Subprotocols, as `socketProtocols()` gives them for a key. */
  protocols?: string[];
  /** Ask for a session that survives a dropped connection. */
  resumable?: boolean;
}

/**
 * One WebSocket in the eyes of its user, however often it has to be opened. A session whose server gave
 * a `resume_token` is taken up again within 15 s, without loss on the server's side; of what could not
 * be sent meanwhile, the newest audio and everything else is sent then.
 */
export class ResumableSocket extends TypedEvents<SocketEvents> {
  readonly #url: URL;
  readonly #protocols: string[];
  readonly #queue = new SendQueue();
  #socket: WebSocket | undefined;
  #state: SocketState = "connecting";
  #token: string | undefined;
  #seq = 0; // messages are counted from 1
  #over = false;
  #attempt = 0;
  #lostAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(url: URL, { protocols = [], resumable = true }: SocketOptions = {}) {
    super();
    this.#url = new URL(url);
    if (resumable) this.#url.searchParams.set("resume", "1");
    this.#protocols = protocols;
    this.#open(this.#url);
  }

  get state(): SocketState {
    return this.#state;
  }

  /** `perishable`: of these only the newest few are kept while there is no connection. */
  send(message: object, { perishable = false } = {}): void {
    if (this.#state === "closed") return;
    if (this.#state === "open") this.#transmit(message);
    else this.#queue.put(message, perishable);
  }

  /** The session is over: a close that follows is no loss. */
  finish(): void {
    this.#over = true;
  }

  /** Leave at once. */
  close(): void {
    this.#over = true;
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.close(1000);
    else this.#end({ code: 1000, reason: "" });
  }

  /** When a lost session is given up, `performance.now()`. */
  get deadline(): number {
    return this.#lostAt + RESUME_WINDOW_MS;
  }

  /** Do not wait for the next attempt. */
  retryNow(): void {
    if (this.#state !== "reconnecting" || this.#socket) return;
    clearTimeout(this.#timer);
    this.#resume();
  }

  /** The connection is there in name only: open another one. */
  reconnect(): void {
    if (this.#state !== "open" || this.#token === undefined) return;
    const socket = this.#socket;
    this.#drop({ code: 1006, reason: "stalled" });
    socket?.close();
  }

  #open(url: URL): void {
    const socket = new WebSocket(url, this.#protocols);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    socket.onopen = () => this.#opened(socket);
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (socket === this.#socket) this.#receive(data);
    };
    socket.onclose = ({ code, reason }) => {
      if (socket === this.#socket) this.#drop({ code, reason });
    };
  }

  #opened(socket: WebSocket): void {
    if (socket === this.#socket && this.#state === "connecting") this.#ready();
  }

  #ready(): void {
    clearTimeout(this.#timer);
    this.#attempt = 0;
    this.#move("open");
    for (const message of this.#queue.take()) this.#transmit(message);
  }

  #transmit(message: object): void {
    const binary = this.#socket?.protocol === BINARY_PROTOCOL;
    this.#socket?.send(binary ? encodeFrame(message) : encodeText(message));
  }

  #receive(frame: string | ArrayBuffer): void {
    const message = this.#parse(frame);
    if (!message) return;
    const token = message["resume_token"];
    if (typeof token === "string") this.#token = token;
    if (token !== undefined && message["type"] === "resumed") this.#ready();
    else if (!this.#seen(message)) this.emit("message", message);
  }

  #parse(frame: string | ArrayBuffer): Record<string, unknown> | undefined {
    try {
      const message = decodeFrame(frame);
      if (isRecord(message)) return message;
      this.emit("problem", "the server sent something that is no message");
    } catch (error) {
      this.emit("problem", `the server sent something that cannot be read: ${String(error)}`);
    }
    return undefined;
  }

  /** Whether the message came before; what a server sends again after a resume keeps its number. */
  #seen(message: Record<string, unknown>): boolean {
    const seq = message["seq"];
    if (typeof seq !== "number") return false;
    if (seq <= this.#seq) return true;
    this.#seq = seq;
    return false;
  }

  #drop(closed: SocketClose): void {
    this.#socket = undefined;
    clearTimeout(this.#timer);
    if (this.#isFinal(closed.code)) {
      this.#end(closed);
      return;
    }
    if (this.#state !== "reconnecting") {
      this.#lostAt = performance.now();
      this.#attempt = 0;
      this.#move("reconnecting");
    }
    this.#retry(closed);
  }

  /** 1013 is an answer to a new session; to one that comes back it means: try once more. */
  #isFinal(code: number): boolean {
    const refused = code === 1013 && this.#state !== "reconnecting";
    return this.#over || this.#token === undefined || refused || FINAL_CODES.has(code);
  }

  #retry(closed: SocketClose): void {
    const wait = backoffMs(this.#attempt++);
    if (performance.now() + wait - this.#lostAt > RESUME_WINDOW_MS) this.#end(closed);
    else this.#timer = setTimeout(() => this.#resume(), wait);
  }

  #resume(): void {
    const url = new URL(this.#url);
    url.searchParams.set("resume_token", this.#token ?? "");
    url.searchParams.set("seq", String(this.#seq));
    this.#open(url);
    const socket = this.#socket;
    this.#timer = setTimeout(() => {
      this.#drop({ code: 1006, reason: "no answer" });
      socket?.close();
    }, ATTEMPT_MS);
  }

  #end(closed: SocketClose): void {
    if (this.#state === "closed") return;
    clearTimeout(this.#timer);
    this.#socket = undefined;
    this.#move("closed");
    this.emit("closed", closed);
  }

  #move(state: SocketState): void {
    this.#state = state;
    this.emit("state", state);
  }
}
