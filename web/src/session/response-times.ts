const SLOWEST_MS = 30_000; // later sounds answer nothing that was said

/** Times from the user's last sound to the model's first one, in ms. Pure. */
export class ResponseTimes {
  readonly #times: number[] = [];

  get last(): number | null {
    return this.#times.at(-1) ?? null;
  }

  get median(): number | null {
    const sorted = this.#times.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? null;
  }

  /** The model is heard from `soundAt` on; the user was last heard at `userAt`. */
  add(userAt: number, soundAt: number): void {
    const ms = soundAt - userAt;
    if (ms > 0 && ms < SLOWEST_MS) this.#times.push(ms);
  }
}
