import { TypedEvents } from "../typed-events.ts";
import { InvalidMessage, type MessageReader } from "./message-reader.ts";
import {
  ResumableSocket,
  type SocketClose,
  type SocketOptions,
  type SocketState,
} from "./resumable-socket.ts";

export interface ClientEvents<Server> {
  /** Checked; types that this client does not know never get here. */
  message: Server;
  connection: SocketState;
  /** The server sent something that cannot be used; the session goes on. */
  problem: string;
  closed: SocketClose;
}

export interface ProtocolSpec<Server> {
  read: MessageReader<Server>;
  /** Whether the session is over once this has come. */
  ends: (message: Server) => boolean;
}

/** A conversation's connection in typed messages. */
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

  /** When a lost session is given up, `performance.now()`. */
  get deadline(): number {
    return this.#socket.deadline;
  }

  /** While the connection is lost: do not wait for the next attempt. */
  retryNow(): void {
    this.#socket.retryNow();
  }

  send(message: Client): void {
    this.#socket.send(message);
  }

  /** As `send`; while the connection is lost only the newest three are kept. */
  sendPerishable(message: Client): void {
    this.#socket.send(message, { perishable: true });
  }

  /** The connection seems dead: try another one, if the session can be resumed. */
  reconnect(): void {
    this.#socket.reconnect();
  }

  /** Leave without a word. */
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
