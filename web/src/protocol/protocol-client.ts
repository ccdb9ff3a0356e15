import { TypedEvents } from "../typed-events.ts";
import { BadMessage, type MessageReader } from "./message-reader.ts";
import {
  type Closed,
  type LinkOptions,
  type LinkState,
  ResumableSocket,
} from "./resumable-socket.ts";

export interface ClientEvents<Server> {
  /** Checked; types that this client does not know never get here. */
  message: Server;
  link: LinkState;
  /** The server sent something that cannot be used; the session goes on. */
  problem: string;
  closed: Closed;
}

export interface Dialect<Server> {
  read: MessageReader<Server>;
  /** Whether the session is over once this has come. */
  ends: (message: Server) => boolean;
}

/** A conversation's connection in typed messages. */
export class ProtocolClient<Server, Client extends object> extends TypedEvents<
  ClientEvents<Server>
> {
  readonly #socket: ResumableSocket;
  readonly #dialect: Dialect<Server>;

  constructor(url: URL, dialect: Dialect<Server>, options: LinkOptions = {}) {
    super();
    this.#dialect = dialect;
    this.#socket = new ResumableSocket(url, options);
    this.#socket.on("message", (message) => this.#receive(message));
    this.#socket.on("state", (state) => this.emit("link", state));
    this.#socket.on("problem", (problem) => this.emit("problem", problem));
    this.#socket.on("closed", (closed) => this.emit("closed", closed));
  }

  get link(): LinkState {
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
    if (this.#dialect.ends(message)) this.#socket.finish();
    this.emit("message", message);
  }

  #read(value: Readonly<Record<string, unknown>>): Server | undefined {
    try {
      return this.#dialect.read(value);
    } catch (error) {
      if (!(error instanceof BadMessage)) throw error;
      this.emit("problem", `the server sent a message that cannot be used: ${error.message}`);
      return undefined;
    }
  }
}
