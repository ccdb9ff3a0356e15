import type { Part, PartType } from "../media/parts.ts";
import type { ChatRequest } from "../protocol/chat-messages.ts";
import { Store } from "../state/store.ts";
import { ChatExchange, type ExchangeOptions } from "./chat-exchange.ts";
import { type Answer, type History, historyOf, partAt, type Said } from "./chat-request.ts";

/** What the next question is asked with. */
export interface ChatSetup {
  readonly system: readonly Part[];
  readonly request: Omit<ChatRequest, "messages">;
  readonly exchange: ExchangeOptions;
}

export interface ChatLogState {
  readonly said: readonly Said[];
  /** Ids of parts that are not sent any more. */
  readonly leftOut: ReadonlySet<number>;
}

const EMPTY: ChatLogState = { said: [], leftOut: new Set() };

/** A conversation in writing: all that was said, and the one answer that is coming. */
export class ChatLog {
  readonly state = new Store<ChatLogState>(EMPTY);
  readonly #setup: (said: readonly Said[]) => Promise<ChatSetup>;
  #exchange: ChatExchange | null = null;
  #preparing = false;
  #lastId = 0;

  /** `setup` is asked before every question, with all that is then said. */
  constructor(setup: (said: readonly Said[]) => Promise<ChatSetup>) {
    this.#setup = setup;
  }

  /** Whether an answer is on its way. */
  get busy(): boolean {
    return this.#preparing || this.#exchange !== null;
  }

  /** Nothing happens while an answer is on its way, as with `again` and `edit`. Rejects if `setup` does. */
  async ask(parts: readonly Part[]): Promise<void> {
    await this.#ask([...this.state.value.said, { role: "user", id: this.#id(), parts }]);
  }

  /** The last question once more; its answer goes. */
  async again(): Promise<void> {
    const { said } = this.state.value;
    const last = said.findLastIndex(({ role }) => role === "user");
    await this.#ask(said.slice(0, last + 1));
  }

  /** Ask something else in a question's place; what followed it goes. */
  async edit(id: number, parts: readonly Part[]): Promise<void> {
    const { said } = this.state.value;
    const place = said.findIndex((one) => one.id === id);
    await this.#ask([...said.slice(0, place), { role: "user", id, parts }]);
  }

  /** Other words for an answer; its sound says others and goes. */
  rewrite(id: number, text: string): void {
    this.#change(id, { text, sound: null });
  }

  /** Take one thing back; what is returned undoes that. */
  remove(id: number): () => void {
    const { said } = this.state.value;
    this.#patch({ said: said.filter((one) => one.id !== id) });
    const rest = this.state.value.said;
    return () => {
      if (this.state.value.said === rest) this.#patch({ said });
    };
  }

  /** From now on without these. */
  leaveOut(parts: readonly Part[]): void {
    const ids = parts.map(({ id }) => id);
    this.#patch({ leftOut: new Set([...this.state.value.leftOut, ...ids]) });
  }

  /** Everything of a type that is still sent. */
  partsOf(type: PartType): Part[] {
    const { said, leftOut } = this.state.value;
    return said
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

  async #ask(said: readonly Said[]): Promise<void> {
    if (this.busy) return;
    this.#preparing = true;
    try {
      const { system, request, exchange } = await this.#setup(said);
      const history = historyOf(system, said, this.state.value.leftOut);
      const { messages } = history;
      const asked = new ChatExchange({ ...request, messages }, exchange);
      this.#begin(said, asked, history, request.record ?? true);
    } finally {
      this.#preparing = false;
    }
  }

  #begin(said: readonly Said[], exchange: ChatExchange, history: History, kept: boolean): void {
    const id = this.#id();
    const { value } = exchange.state;
    const blank = { role: "assistant", id, text: "", sound: null, refused: null } as const;
    this.#exchange = exchange;
    this.#patch({ said: [...said, { ...blank, exchange: value, kept }] });
    exchange.state.subscribe((state) => {
      if (this.#exchange !== exchange) return; // cleared away
      const ended = state.phase === "ended";
      if (ended) this.#exchange = null;
      const sound = ended && exchange.sound.length > 0 ? exchange.sound : null;
      const refused = partAt(history, state.ending?.field);
      this.#change(id, { text: state.text, exchange: state, sound, refused });
    });
    exchange.start();
  }

  #change(id: number, change: Partial<Answer>): void {
    const changed = (one: Said): Said =>
      one.id === id && one.role === "assistant" ? { ...one, ...change } : one;
    this.#patch({ said: this.state.value.said.map(changed) });
  }

  #patch(change: Partial<ChatLogState>): void {
    this.state.set({ ...this.state.value, ...change });
  }

  #id(): number {
    this.#lastId += 1;
    return this.#lastId;
  }
}
