import type { AudioEngine, Levels } from "../audio/audio-engine.ts";
import type { ProtocolClient } from "../protocol/clients.ts";
import type { SocketClose, SocketState } from "../protocol/resumable-socket.ts";
import type { ErrorMessage, Queued } from "../protocol/server-messages.ts";
import { Store, TypedEvents } from "../state/store.ts";
import type { UnitMetrics } from "./metrics.ts";

/** State that all kinds of sessions share. */

export type Phase =
  | "idle"
  /** Opening the microphone and the camera. */
  | "opening"
  | "connecting"
  | "queued"
  | "preparing"
  | "active"
  | "paused"
  /** Stop requested. */
  | "stopping"
  | "ended";

/**
 * Status in the queue. Position 1 is next. `etaS` is null while no worker can take the session, for
 * `reason`. `at`: time of the update, `performance.now()`. `stale`: the server cannot read the queue,
 * so the position may have changed.
 */
export interface QueueStatus {
  readonly position: number;
  readonly length: number;
  readonly etaS: number | null;
  readonly reason: string | null;
  readonly at: number;
  readonly stale: boolean;
}

export type ConnectionStatus =
  | { readonly state: "none" }
  | { readonly state: "connecting" }
  | { readonly state: "open" }
  /** Lost. The server keeps the session until `deadline` (`performance.now()`). */
  | { readonly state: "reconnecting"; readonly deadline: number }
  /** Lost for too long. */
  | { readonly state: "lost" };

/** Why a session ended. */
export interface SessionEnd {
  readonly by:
    | "user"
    /** Paused or silent for too long. */
    | "timeout"
    /** Ended by the server, see `message`. */
    | "server"
    /** The connection failed or was lost for too long. */
    | "connection"
    /** The microphone, camera or file could not be used, see `cause`. */
    | "device";
  /**
   * The server's error code, or the meaning of its close code (`server_shutdown`, `try_later`,
   * `replaced`, `message_too_large`). For a connection `unreachable`, `no_websockets`, the code of a refusal,
   * `not_opened`, or `lost`.
   */
  readonly code: string;
  readonly message: string;
  /** The field that the server rejected, such as `messages.1.content.0`. */
  readonly field?: string | undefined;
  /** The browser's error. */
  readonly cause?: unknown;
}

/** An error from the server or the page that does not end the session. */
export interface Problem {
  readonly code: string;
  readonly message: string;
  /** The field that the server rejected, such as `config.vad.threshold`. */
  readonly field?: string | undefined;
}

export interface SessionState {
  readonly phase: Phase;
  readonly sessionId: string;
  /** Id of the recording. Null until the session is prepared. */
  readonly recordingId: string | null;
  /** Not null in phase `queued`, and in later phases after the session lost its worker. */
  readonly queue: QueueStatus | null;
  readonly connection: ConnectionStatus;
  readonly end: SessionEnd | null;
}

export const NEW_SESSION: SessionState = {
  phase: "idle",
  sessionId: "",
  recordingId: null,
  queue: null,
  connection: { state: "none" },
  end: null,
};

const STOP_MS = 3000; // a server that does not confirm a stop in this time is disconnected

const LOST_CODES: ReadonlySet<number> = new Set([1001, 1006, 4410]);

/** Meaning of close codes without an error message. */
const CLOSE_NAMES: Record<number, string> = {
  1009: "message_too_large",
  1012: "server_shutdown",
  1013: "try_later",
  4409: "replaced",
};

type Place = Pick<Queued, "position" | "queue_length" | "estimated_wait_s" | "reason"> & {
  stale?: boolean;
};

/** A message of the connection. */
export interface Exchange {
  readonly sent: boolean;
  readonly message: object;
}

/** Events of a session. Sessions without a microphone emit only `problem`. */
interface SessionEvents {
  /** An error that does not end the session. */
  problem: Problem;
  /** The audio engine is open. */
  audio: AudioEngine;
  /** Sent ten times per second. */
  levels: Levels;
  /** Every unit of a full-duplex session, for charts. */
  unit: UnitMetrics;
  /** Every message, for developers. */
  exchange: Exchange;
}

/**
 * Life cycle of a session on any protocol: queue, connection, stop and end. Subclasses handle the
 * content.
 */
export abstract class Session<
  State extends SessionState,
  Server extends { readonly type: string },
  Client extends object,
> extends TypedEvents<SessionEvents> {
  /** The state that pages render. */
  readonly state: Store<State>;
  #client: ProtocolClient<Server, Client> | undefined;
  /** Nothing has followed it, so it explains a close. */
  #lastError: Problem | undefined;
  #stopTimer: ReturnType<typeof setTimeout> | undefined;
  #assigned = false;

  constructor(initial: State) {
    super();
    this.state = new Store(initial);
  }

  /** Reconnects at once. */
  retryNow(): void {
    this.#client?.retryNow();
  }

  /** Ends the session in order. It has ended when `state` has phase `ended`. */
  stop(): void {
    const { phase } = this.state.value;
    if (phase === "ended" || phase === "stopping") return;
    this.patch({ phase: "stopping" });
    if (!this.#client) {
      this.stopped();
      return;
    }
    this.client.send(this.stopMessage());
    this.#stopTimer = setTimeout(() => this.client.close(), STOP_MS);
  }

  protected get client(): ProtocolClient<Server, Client> {
    if (!this.#client) throw new Error("the session is not connected");
    return this.#client;
  }

  /** The message that stops the session. */
  protected abstract stopMessage(): Client;
  protected abstract onMessage(message: Server): void;
  /** Releases all resources. Called once, at the end. */
  protected abstract release(): void;

  protected attach(client: ProtocolClient<Server, Client>): void {
    this.#client = client;
    this.patch({ phase: "connecting", connection: { state: "connecting" } });
    client.on("connection", (connection) => this.#onConnection(connection));
    client.on("sent", (message) => this.emit("exchange", { sent: true, message }));
    client.on("message", (message) => {
      this.emit("exchange", { sent: false, message });
      if (message.type !== "error") this.#lastError = undefined; // the session goes on
      this.onMessage(message);
    });
    client.on("problem", (message) => this.emit("problem", { code: "bad_message", message }));
    client.on("closed", (closed) => this.#onClosed(closed));
  }

  protected patch(change: Partial<State> | Partial<SessionState>): void {
    this.state.set({ ...this.state.value, ...change });
  }

  /**
   * The session is queued or its position changed. A session that has lost its worker stays in its
   * phase. Position 0 means that it has a worker again.
   */
  protected onQueued(message: Place): void {
    const { phase } = this.state.value;
    if (phase === "stopping") return;
    const { position, queue_length: length, estimated_wait_s: etaS, stale = false } = message;
    const { reason } = message;
    const at = performance.now();
    const queue = position === 0 ? null : { position, length, etaS, reason, at, stale };
    if (this.#assigned || phase === "active") this.patch({ queue });
    else this.patch({ phase: queue ? "queued" : "preparing", queue });
  }

  /** A worker is assigned. Returns false if the user has left. */
  protected onWorkerAssigned(): boolean {
    if (this.state.value.phase === "stopping") return false;
    this.#assigned = true;
    this.patch({ phase: "preparing", queue: null });
    return true;
  }

  /** An error during preparation ends the session. */
  protected onError({ code, message, field }: ErrorMessage): void {
    const problem = { code, message, field: field ?? undefined };
    this.#lastError = problem;
    this.emit("problem", problem);
    if (this.state.value.phase === "preparing") this.end({ by: "server", ...problem });
  }

  protected stopped(): void {
    this.end({ by: "user", code: "stopped", message: "" });
  }

  protected end(end: SessionEnd): void {
    if (this.state.value.phase === "ended") return;
    clearTimeout(this.#stopTimer);
    const connection = { state: end.code === "lost" ? "lost" : "none" } as const;
    this.patch({ phase: "ended", queue: null, connection, end });
    this.#client?.close();
    this.release();
  }

  #onConnection(state: SocketState): void {
    if (state === "closed") return; // the end has more details
    const { deadline } = this.client;
    this.patch({ connection: state === "reconnecting" ? { state, deadline } : { state } });
  }

  #onClosed({ code, reason }: SocketClose): void {
    const { phase, connection } = this.state.value;
    if (phase === "stopping") this.stopped();
    else if (!LOST_CODES.has(code)) {
      const name = CLOSE_NAMES[code] ?? String(code);
      this.end({ by: "server", code: name, message: reason, ...this.#lastError });
    } else if (connection.state === "connecting") void this.#endWithoutConnection(reason);
    else this.end({ by: "connection", code: "lost", message: reason });
  }

  async #endWithoutConnection(message: string): Promise<void> {
    const refusal = await this.client.refusal();
    if (this.state.value.phase === "stopping") this.stopped();
    else this.end({ by: "connection", ...(refusal ?? { code: "unreachable", message }) });
  }
}
