import { isRecord, TypedEvents } from "../state/store.ts";
import { BINARY_PROTOCOL, decodeFrame, encodeFrame, encodeText } from "./frames.ts";

/** How long the server keeps a session after a lost connection, ms. */
export const RESUME_WINDOW_MS = 15_000;

const ATTEMPT_MS = 4000; // timeout of an attempt without an answer
const LATE_ANSWER_MS = 50;
const FINAL_CODES: ReadonlySet<number> = new Set([
  1000, 1002, 1003, 1007, 1008, 1009, 1011, 4409, 4410,
]);

/** Reasons of a close for a slow connection, whose session the server keeps. */
const SLOW_REASONS: ReadonlySet<string> = new Set(["keepalive ping timeout", "slow_consumer"]);

/** `reconnecting`: the session exists and the page tries to reach it. */
export type SocketState = "connecting" | "open" | "reconnecting" | "closed";

export interface SocketClose {
  /** Code of the close event, or 1006 without one. */
  code: number;
  reason: string;
}

interface SocketEvents {
  state: SocketState;
  message: Readonly<Record<string, unknown>>;
  /** Sound that waited for a connection for too long. It is not sent. */
  dropped: object;
  /** A frame could not be decoded. */
  problem: string;
  closed: SocketClose;
}

export interface SocketOptions {
  /** Subprotocols from `socketProtocols()`. */
  protocols?: string[];
  /** Ask for a session that can be resumed. */
  resumable?: boolean;
}

/**
 * A WebSocket that reconnects. A session with a `resume_token` is resumed within 15 s without loss
 * of server messages. After a reconnect it sends the queued messages and the newest queued audio.
 */
export class ResumableSocket extends TypedEvents<SocketEvents> {
  readonly #url: URL;
  readonly #protocols: string[];
  readonly #queue = new SendQueue();
  #socket: WebSocket | undefined;
  #state: SocketState = "connecting";
  #token: string | undefined;
  #seq = 0; // of the newest message that has a number
  #over = false;
  #stopped = false; // on this connection
  #failures = 0; // since the connection was lost
  #attempts = 0; // of the whole session; the server prefers the newest
  #abandoned = 0;
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

  /** `perishableMs`: sound, of which only the newest seconds are kept while there is no connection. */
  send(message: object, { perishableMs = 0 } = {}): void {
    if (this.#state === "closed") return;
    if (this.#state === "open") this.#transmit(message);
    else for (const old of this.#queue.put(message, perishableMs)) this.emit("dropped", old);
  }

  /** Marks the session as ended, so that a close is not a lost connection. */
  finish(): void {
    this.#over = true;
  }

  /** Closes at once. It stops a session that the server would keep for a resume. */
  close(): void {
    const socket = this.#socket;
    const isKept = this.#state === "open" && this.#token !== undefined && !this.#over;
    if (isKept && !this.#stopped) this.#transmit({ type: "stop" });
    this.#over = true;
    this.#end({ code: 1000, reason: "" }); // without an answer, which a dead network never gives
    socket?.close(1000); // also one that may still connect, and would hold the session
  }

  /** When reconnecting stops, `performance.now()`. */
  get deadline(): number {
    return this.#lostAt + RESUME_WINDOW_MS;
  }

  /** Reconnects at once. */
  retryNow(): void {
    if (this.#state !== "reconnecting" || this.#socket) return;
    clearTimeout(this.#timer);
    this.#resume();
  }

  /** Replaces a connection that no longer responds. */
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
    this.#stopped = false;
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
    this.#failures = 0;
    this.#move("open");
    for (const message of this.#queue.take()) this.#transmit(message);
  }

  #transmit(message: object): void {
    if ("type" in message && message.type === "stop") this.#stopped = true;
    const binary = this.#socket?.protocol === BINARY_PROTOCOL;
    this.#socket?.send(binary ? encodeFrame(message) : encodeText(message));
  }

  #receive(frame: string | ArrayBuffer): void {
    const message = this.#parse(frame);
    if (!message) return;
    const token = message["resume_token"];
    if (typeof token === "string") this.#token = token;
    if (token !== undefined && message["type"] === "resumed") this.#ready();
    else if (!this.#isDuplicate(message)) this.emit("message", message);
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

  /**
   * Whether the message is a duplicate. After a resume the server repeats messages with the same
   * number.
   */
  #isDuplicate(message: Record<string, unknown>): boolean {
    const seq = message["seq"];
    if (typeof seq !== "number") return false;
    if (seq <= this.#seq) return true;
    this.#seq = seq;
    return false;
  }

  #drop(closed: SocketClose): void {
    this.#socket = undefined;
    clearTimeout(this.#timer);
    if (!this.#isReplacedByAttempt(closed.code) && this.#isFinal(closed)) {
      this.#end(closed);
      return;
    }
    if (this.#state !== "reconnecting") {
      this.#lostAt = performance.now();
      this.#failures = 0;
      this.#move("reconnecting");
    }
    this.#retry(closed);
  }

  /** An abandoned attempt may arrive late and replace the connection. Each one does so once. */
  #isReplacedByAttempt(code: number): boolean {
    if (code !== 4409 || this.#abandoned === 0 || this.#over) return false;
    this.#abandoned -= 1;
    return true;
  }

  /** 1013 rejects a new session. For a resumed session it means: retry. */
  #isFinal({ code, reason }: SocketClose): boolean {
    if (this.#over || this.#token === undefined) return true;
    if (SLOW_REASONS.has(reason)) return false;
    const refused = code === 1013 && this.#state !== "reconnecting";
    return refused || FINAL_CODES.has(code);
  }

  #retry(closed: SocketClose): void {
    const wait = backoffMs(this.#failures++);
    if (performance.now() + wait - this.#lostAt > RESUME_WINDOW_MS) this.#end(closed);
    else this.#timer = setTimeout(() => this.#resume(), wait);
  }

  #resume(): void {
    const url = new URL(this.#url);
    url.searchParams.set("resume_token", this.#token ?? "");
    url.searchParams.set("seq", String(this.#seq));
    url.searchParams.set("attempt", String(++this.#attempts));
    this.#open(url);
    this.#timer = setTimeout(() => {
      // An answer that arrived while the tab was suspended is handled first.
      this.#timer = setTimeout(() => this.#abandon(), LATE_ANSWER_MS);
    }, ATTEMPT_MS);
  }

  #abandon(): void {
    const socket = this.#socket;
    this.#abandoned += 1;
    this.#drop({ code: 1006, reason: "no answer" });
    socket?.close();
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

const STEPS_MS = [100, 500, 1000, 2000, 3000];
const JITTER = 0.2; // random, so that clients of a failed edge do not all reconnect at once

/** Wait before attempt `n`, counted from 0. */
export function backoffMs(n: number, random: () => number = Math.random): number {
  const step = STEPS_MS[Math.min(n, STEPS_MS.length - 1)] as number;
  return step * (1 + JITTER * (2 * random() - 1));
}

const MAX_PERISHABLE_MS = 3000; // the server skips older audio

interface Waiting {
  message: object;
  perishableMs: number;
}

/** Queue of messages that wait for a connection. Keeps only the newest sound. */
class SendQueue {
  #waiting: Waiting[] = [];

  /** Returns the sound that is dropped for it. */
  put(message: object, perishableMs: number): object[] {
    this.#waiting.push({ message, perishableMs });
    let keptMs = this.#waiting.reduce((sum, waiting) => sum + waiting.perishableMs, 0);
    const dropped: object[] = [];
    this.#waiting = this.#waiting.filter((waiting) => {
      const isStale = waiting.perishableMs > 0 && keptMs > MAX_PERISHABLE_MS;
      if (isStale) keptMs -= waiting.perishableMs;
      if (isStale) dropped.push(waiting.message);
      return !isStale;
    });
    return dropped;
  }

  take(): object[] {
    const messages = this.#waiting.map(({ message }) => message);
    this.#waiting = [];
    return messages;
  }
}
