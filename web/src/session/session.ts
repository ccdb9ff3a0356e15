import type { AudioEngine, Levels } from "../audio/audio-engine.ts";
import type { ProtocolClient } from "../protocol/protocol-client.ts";
import type { ErrorMessage, Queued } from "../protocol/queue-messages.ts";
import type { SocketClose, SocketState } from "../protocol/resumable-socket.ts";
import { Store, TypedEvents } from "../state/store.ts";
import type { UnitMetrics } from "./metrics.ts";
import type { Problem, SessionEnd, SessionState } from "./session-state.ts";

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
export interface SessionEvents {
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
    const connection = { state: end.by === "connection" ? "lost" : "none" } as const;
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
    else if (LOST_CODES.has(code)) {
      const name = connection.state === "connecting" ? "unreachable" : "lost";
      this.end({ by: "connection", code: name, message: reason });
    } else {
      const name = CLOSE_NAMES[code] ?? String(code);
      this.end({ by: "server", code: name, message: reason, ...this.#lastError });
    }
  }
}
