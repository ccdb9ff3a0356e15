import { TypedEvents } from "../state/store.ts";
import { InvalidMessage, type MessageReader } from "./message-reader.ts";
import {
  ResumableSocket,
  type SocketClose,
  type SocketOptions,
  type SocketState,
} from "./resumable-socket.ts";

export interface ClientEvents<Server> {
  /** A validated message of a known type. */
  message: Server;
  /** A message that the page sends. */
  sent: object;
  connection: SocketState;
  /** The server sent an invalid message. The session continues. */
  problem: string;
  closed: SocketClose;
}

export interface ProtocolSpec<Server> {
  read: MessageReader<Server>;
  /** Whether this message ends the session. */
  ends: (message: Server) => boolean;
}

/** A connection with typed messages. */
export class ProtocolClient<Server, Client extends object> extends TypedEvents<
  ClientEvents<Server>
> {
  readonly #socket: ResumableSocket;
  readonly #spec: ProtocolSpec<Server>;

  constructor(url: URL, spec: ProtocolSpec<Server>, options: SocketOptions = {}) {
    super();
    this.#spec = spec;
    this.#socket = new ResumableSocket(url, options);
    this.#socket.on("message", (message) => this.#receive(message));
    this.#socket.on("state", (state) => this.emit("connection", state));
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

  /** Like `send`, but keeps only the newest three messages while the connection is lost. */
  sendPerishable(message: Client): void {
    this.emit("sent", message);
    this.#socket.send(message, { perishable: true });
  }

  /** Replaces a connection that seems dead, if the session can be resumed. */
  reconnect(): void {
    this.#socket.reconnect();
  }

  /** Closes without a message. */
  close(): void {
    this.#socket.close();
  }

  #receive(value: Readonly<Record<string, unknown>>): void {
    const message = this.#read(value);
    if (message === undefined) return;
    if (this.#spec.ends(message)) this.#socket.finish();
    this.emit("message", message);
  }

  #read(value: Readonly<Record<string, unknown>>): Server | undefined {
    try {
      return this.#spec.read(value);
    } catch (error) {
      if (!(error instanceof InvalidMessage)) throw error;
      this.emit("problem", `the server sent a message that cannot be used: ${error.message}`);
      return undefined;
    }
  }
}
