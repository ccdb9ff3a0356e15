import type { Part, PartType } from "../media/parts.ts";
import type { ChatRequest } from "../protocol/chat-messages.ts";
import { Store } from "../state/store.ts";
import { ChatExchange, type ChatExchangeOptions } from "./chat-exchange.ts";
import {
  type Answer,
  buildMessages,
  type ChatEntry,
  partAt,
  type RequestMessages,
} from "./chat-request.ts";

/** What the next question is asked with. */
export interface ChatSetup {
  readonly system: readonly Part[];
  readonly request: Omit<ChatRequest, "messages">;
  readonly exchange: ChatExchangeOptions;
}

export interface ChatLogState {
  readonly entries: readonly ChatEntry[];
  /** Ids of parts that are not sent any more. */
  readonly leftOut: ReadonlySet<number>;
}

const EMPTY: ChatLogState = { entries: [], leftOut: new Set() };

/** A conversation in writing: all that was said, and the one answer that is coming. */
export class ChatLog {
  readonly state = new Store<ChatLogState>(EMPTY);
  readonly #setup: (entries: readonly ChatEntry[]) => Promise<ChatSetup>;
  #exchange: ChatExchange | null = null;
  #preparing = false;
  #lastId = 0;

  /** `setup` is asked before every question, with all that is then said. */
  constructor(setup: (entries: readonly ChatEntry[]) => Promise<ChatSetup>) {
    this.#setup = setup;
  }

  /** Whether an answer is on its way. */
  get busy(): boolean {
    return this.#preparing || this.#exchange !== null;
  }

  /** Nothing happens while an answer is on its way, as with `again` and `edit`. Rejects if `setup` does. */
  async ask(parts: readonly Part[]): Promise<void> {
    await this.#ask([...this.state.value.entries, { role: "user", id: this.#id(), parts }]);
  }

  /** The last question once more; its answer goes. */
  async again(): Promise<void> {
    const { entries } = this.state.value;
    const last = entries.findLastIndex(({ role }) => role === "user");
    await this.#ask(entries.slice(0, last + 1));
  }

  /** Ask something else in a question's place; what followed it goes. */
  async edit(id: number, parts: readonly Part[]): Promise<void> {
    const { entries } = this.state.value;
    const queue = entries.findIndex((one) => one.id === id);
    await this.#ask([...entries.slice(0, queue), { role: "user", id, parts }]);
  }

  /** Other words for an answer; its sound says others and goes. */
  rewrite(id: number, text: string): void {
    this.#change(id, { text, sound: null });
  }

  /** Take one thing back; what is returned undoes that. */
  remove(id: number): () => void {
    const { entries } = this.state.value;
    this.#patch({ entries: entries.filter((one) => one.id !== id) });
    const rest = this.state.value.entries;
    return () => {
      if (this.state.value.entries === rest) this.#patch({ entries });
    };
  }

  /** From now on without these. */
  leaveOut(parts: readonly Part[]): void {
    const ids = parts.map(({ id }) => id);
    this.#patch({ leftOut: new Set([...this.state.value.leftOut, ...ids]) });
  }

  /** Everything of a type that is still sent. */
  partsOf(type: PartType): Part[] {
    const { entries, leftOut } = this.state.value;
    return entries
      .flatMap((one) => (one.role === "user" ? one.parts : []))
      .filter((part) => part.type === type && !leftOut.has(part.id));
  }

  stop(): void {
    this.#exchange?.stop();
  }

  retryNow(): void {
    this.#exchange?.retryNow();
  }

  clear(): void {
    this.stop();
    this.#exchange = null;
    this.state.set(EMPTY);
  }

  async #ask(entries: readonly ChatEntry[]): Promise<void> {
    if (this.busy) return;
    this.#preparing = true;
    try {
      const { system, request, exchange } = await this.#setup(entries);
      const history = buildMessages(system, entries, this.state.value.leftOut);
      const { messages } = history;
      const asked = new ChatExchange({ ...request, messages }, exchange);
      this.#begin(entries, asked, history, request.record ?? true);
    } finally {
      this.#preparing = false;
    }
  }

  #begin(
    entries: readonly ChatEntry[],
    exchange: ChatExchange,
    history: RequestMessages,
    kept: boolean,
  ): void {
    const id = this.#id();
    const { value } = exchange.state;
    const blank = { role: "assistant", id, text: "", sound: null, refused: null } as const;
    this.#exchange = exchange;
    this.#patch({ entries: [...entries, { ...blank, exchange: value, kept }] });
    exchange.state.subscribe((state) => {
      if (this.#exchange !== exchange) return; // cleared away
      const ended = state.phase === "ended";
      if (ended) this.#exchange = null;
      const sound = ended && exchange.sound.length > 0 ? exchange.sound : null;
      const refused = partAt(history, state.end?.field);
      this.#change(id, { text: state.text, exchange: state, sound, refused });
    });
    exchange.start();
  }

  #change(id: number, change: Partial<Answer>): void {
    const changed = (one: ChatEntry): ChatEntry =>
      one.id === id && one.role === "assistant" ? { ...one, ...change } : one;
    this.#patch({ entries: this.state.value.entries.map(changed) });
  }

  #patch(change: Partial<ChatLogState>): void {
    this.state.set({ ...this.state.value, ...change });
  }

  #id(): number {
    this.#lastId += 1;
    return this.#lastId;
  }
}
