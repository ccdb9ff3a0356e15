/** A word of a line, `characters` long, that begins at `atMs` of all audio that was pushed. */
interface Word {
  readonly line: number;
  readonly characters: number;
  readonly atMs: number;
}

/** Finds the words that the player has reached. Positions are its `playedMs`. Pure. */
export class SpokenWords {
  #words: Word[] = [];
  #endMs = 0;

  /** Whether words were not reached yet. */
  get waits(): boolean {
    return this.#words.length > 0;
  }

  /**
   * Adds the text of a unit whose audio is `audioMs` long. `words` are its words with their times in
   * that audio. Without them, the text begins with the audio.
   */
  push(
    line: number,
    text: string,
    words: readonly (readonly [number, string])[] | null,
    audioMs: number,
  ): void {
    const timed = words?.map(([, word]) => word).join("") === text ? words : [[0, text] as const];
    for (const [atMs, word] of timed ?? []) {
      if (word !== "")
        this.#words.push({ line, characters: word.length, atMs: this.#endMs + atMs });
    }
    this.#endMs += audioMs;
  }

  /** Removes the words that have begun at this position, and returns them. */
  reached(playedMs: number): Word[] {
    const count = this.#words.findIndex(({ atMs }) => atMs > playedMs);
    return this.#words.splice(0, count < 0 ? this.#words.length : count);
  }

  /** What was not played was dropped at this position. */
  drop(playedMs: number): void {
    this.#words = [];
    this.#endMs = playedMs;
  }
}
