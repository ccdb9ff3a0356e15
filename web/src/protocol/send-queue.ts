const MAX_PERISHABLE = 3; // chunks; the server skips older audio

interface Waiting {
  message: object;
  perishable: boolean;
}

/** Queue of messages that wait for a connection. Keeps only the newest perishable messages. */
export class SendQueue {
  #waiting: Waiting[] = [];

  put(message: object, perishable: boolean): void {
    this.#waiting.push({ message, perishable });
    const stale = this.#waiting.filter((waiting) => waiting.perishable).at(-MAX_PERISHABLE - 1);
    this.#waiting = this.#waiting.filter((waiting) => waiting !== stale);
  }

  take(): object[] {
    const messages = this.#waiting.map(({ message }) => message);
    this.#waiting = [];
    return messages;
  }
}
