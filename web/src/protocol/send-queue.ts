const MAX_PERISHABLE = 3; // chunks: the server would skip older audio anyway

interface Waiting {
  message: object;
  perishable: boolean;
}

/** What waits for a connection, in order; of perishable messages only the newest. */
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
