export interface TranscriptLine {
  readonly id: number;
  readonly role: "user" | "model";
  readonly text: string;
  /** `performance.now()` of its first word. */
  readonly at: number;
  /** Nothing more will be added. */
  readonly done: boolean;
  /** The model was interrupted; not all of it was heard. */
  readonly cut: boolean;
}

/** What was said, line by line; a new array for every change. */
export class Transcript {
  #lines: readonly TranscriptLine[] = [];
  #nextId = 0;

  get lines(): readonly TranscriptLine[] {
    return this.#lines;
  }

  /** Add to the line that the role is speaking, or begin one. */
  say(role: TranscriptLine["role"], text: string): void {
    if (text === "") return;
    const open = this.#open(role);
    if (open) this.#change({ ...open, text: open.text + text });
    else this.#begin(role, text);
  }

  /** A line that is known as a whole. */
  add(role: TranscriptLine["role"], text: string): void {
    this.say(role, text);
    this.end(role);
  }

  /** What the role says next is another line. */
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
