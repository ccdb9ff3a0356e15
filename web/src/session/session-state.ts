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
   * `replaced`, `message_too_large`). For a connection `unreachable` or `lost`.
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
