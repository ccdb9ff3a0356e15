export interface TranscriptLine {
  readonly id: number;
  readonly role: "user" | "model";
  readonly text: string;
  /** `performance.now()` of its first word. */
  readonly at: number;
  /** The line is complete. */
  readonly done: boolean;
  /** The model was interrupted, and part of the text was not played. */
  readonly cut: boolean;
}

/** The transcript as lines. Every change creates a new array. */
export class Transcript {
  #lines: readonly TranscriptLine[] = [];
  #nextId = 0;

  get lines(): readonly TranscriptLine[] {
    return this.#lines;
  }

  /** Appends to the open line of the role, or starts one. */
  say(role: TranscriptLine["role"], text: string): void {
    if (text === "") return;
    const open = this.#open(role);
    if (open) this.#change({ ...open, text: open.text + text });
    else this.#begin(role, text);
  }

  /** Adds a complete line. */
  add(role: TranscriptLine["role"], text: string): void {
    this.say(role, text);
    this.end(role);
  }

  /** Completes the open line of the role. */
  end(role: TranscriptLine["role"], { cut = false } = {}): void {
    const open = this.#open(role);
    if (open) this.#change({ ...open, done: true, cut });
  }

  #open(role: TranscriptLine["role"]): TranscriptLine | undefined {
    return this.#lines.find((line) => line.role === role && !line.done);
  }

  #begin(role: TranscriptLine["role"], text: string): void {
    const line = { id: this.#nextId++, role, text, at: performance.now(), done: false, cut: false };
    this.#lines = [...this.#lines, line];
  }

  #change(line: TranscriptLine): void {
    this.#lines = this.#lines.map((other) => (other.id === line.id ? line : other));
  }
}
