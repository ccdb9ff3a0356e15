/** What one side said. */
export interface TranscriptLine {
  readonly id: number;
  readonly role: "user" | "model";
  readonly text: string;
  /** `performance.now()` of its first word. */
  readonly at: number;
  /** The line is complete. */
  readonly done: boolean;
  /** The user still speaks: the text grows and is corrected, or disappears. */
  readonly interim: boolean;
  /** The model was interrupted, and part of the text was not played. */
  readonly cut: boolean;
  /** How many characters of the model's text were played, with the word that is being played. */
  readonly spoken: number;
}

/** The transcript as lines. Every change creates a new array. */
export class Transcript {
  #lines: readonly TranscriptLine[] = [];
  #nextId = 0;

  get lines(): readonly TranscriptLine[] {
    return this.#lines;
  }

  /** Appends to the model's open line, or starts one. Returns its id; null without a text or a line. */
  say(text: string): number | null {
    const open = this.#openLine;
    if (text === "") return open?.id ?? null;
    if (!open) return this.#begin({ role: "model", text });
    this.#change({ ...open, text: open.text + text });
    return open.id;
  }

  /** A whole utterance of the user. It replaces the interim words. */
  addUserText(text: string): void {
    if (text === "") return;
    const interim = this.#interimLine;
    if (interim) this.#change({ ...interim, text, interim: false, done: true });
    else this.#begin({ role: "user", text, done: true });
  }

  /** What the user has said so far replaces what was known of it. Empty: it was no speech. */
  hearing(text: string): void {
    const interim = this.#interimLine;
    if (text === "") this.#lines = this.#lines.filter((line) => line !== interim);
    else if (!interim) this.#begin({ role: "user", text, interim: true });
    else if (interim.text !== text) this.#change({ ...interim, text });
  }

  /** These characters of the model's line are played now. */
  light(id: number, characters: number): void {
    const line = this.#lines.find((other) => other.id === id);
    if (line) this.#change({ ...line, spoken: line.spoken + characters });
  }

  /** Completes the model's open line. */
  end({ cut = false } = {}): void {
    const open = this.#openLine;
    if (open) this.#change({ ...open, done: true, cut });
  }

  get #openLine(): TranscriptLine | undefined {
    return this.#lines.find((line) => line.role === "model" && !line.done);
  }

  get #interimLine(): TranscriptLine | undefined {
    return this.#lines.find((line) => line.interim);
  }

  #begin(line: Pick<TranscriptLine, "role" | "text"> & Partial<TranscriptLine>): number {
    const id = this.#nextId++;
    const at = performance.now();
    const fresh = { id, at, done: false, interim: false, cut: false, spoken: 0, ...line };
    this.#lines = [...this.#lines, fresh];
    return id;
  }

  #change(line: TranscriptLine): void {
    this.#lines = this.#lines.map((other) => (other.id === line.id ? line : other));
  }
}

/** The lines that will not be corrected. */
export function finalLines(lines: readonly TranscriptLine[]): TranscriptLine[] {
  return lines.filter(({ interim }) => !interim);
}

/** The text in two parts: what was played, with the word that is being played, and what follows. */
export function playedParts({ role, text, spoken }: TranscriptLine): [string, string] {
  if (role === "user") return [text.trim(), ""];
  const played = text.slice(0, spoken).trimStart();
  const rest = text.slice(spoken).trimEnd();
  return [played, played === "" ? rest.trimStart() : rest];
}
