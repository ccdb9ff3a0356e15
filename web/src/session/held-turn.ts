const LONGEST_MS = 4000; // a person stops by then; a television in the room does not

/** Keeps what the model says while the user speaks, in order, until the user stops. Pure. */
export class HeldTurn<Unit> {
  #units: Unit[] = [];
  #heldMs = 0;

  /** Whether something is kept. What follows must then be kept as well. */
  get waits(): boolean {
    return this.#units.length > 0;
  }

  keep(unit: Unit): void {
    this.#units.push(unit);
  }

  /**
   * `ms` of the user's audio were captured. Returns what must be played now. That is everything
   * if the user is silent, or 4 s after the first unit.
   */
  captured(ms: number, userSpeaks: boolean): Unit[] {
    if (!this.waits) return [];
    this.#heldMs += ms;
    return userSpeaks && this.#heldMs < LONGEST_MS ? [] : this.take();
  }

  /** Returns everything that is kept, and keeps it no longer. */
  take(): Unit[] {
    const units = this.#units;
    this.#units = [];
    this.#heldMs = 0;
    return units;
  }
}
