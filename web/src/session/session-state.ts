/** Where a conversation stands, in words that all kinds share. */

export type Phase =
  | "idle"
  /** Asking for the microphone and the camera. */
  | "opening"
  | "connecting"
  | "queued"
  | "preparing"
  | "active"
  | "paused"
  /** Asked to stop. */
  | "stopping"
  | "ended";

/** A place in the queue; 1 is next. `at` is `performance.now()` when it was told. */
export interface QueueStatus {
  readonly position: number;
  readonly length: number;
  readonly etaS: number;
  readonly at: number;
}

export type ConnectionStatus =
  | { readonly state: "none" }
  | { readonly state: "connecting" }
  | { readonly state: "open" }
  /** Dropped; the server keeps the session until `deadline` (`performance.now()`). */
  | { readonly state: "reconnecting"; readonly deadline: number }
  /** Dropped for too long. */
  | { readonly state: "lost" };

/** Why a conversation ended. */
export interface SessionEnd {
  readonly by:
    | "user"
    /** Paused, or silent, for too long. */
    | "timeout"
    /** The server said why: see `message`. */
    | "server"
    /** There was no connection, or it was lost for too long. */
    | "connection"
    /** The microphone, the camera or the file could not be used: see `cause`. */
    | "device";
  /**
   * The server's error code; else what its close says (`server_shutdown`, `try_later`, `replaced`,
   * `message_too_large`); of a connection `unreachable` or `lost`.
   */
  readonly code: string;
  readonly message: string;
  /** What the server could not use, such as `messages.1.content.0`. */
  readonly field?: string | undefined;
  /** What the browser threw. */
  readonly cause?: unknown;
}

/** What the server, or the page itself, says went wrong; the conversation goes on. */
export interface Problem {
  readonly code: string;
  readonly message: string;
  /** What the server could not use, such as `config.vad.threshold`. */
  readonly field?: string | undefined;
}

export interface SessionState {
  readonly phase: Phase;
  readonly sessionId: string;
  /** With which a recording is found; null until the session is prepared. */
  readonly recordingId: string | null;
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
