import { type Part, type PartType, restoredPart } from "../media/parts.ts";
import type { ChatRequest } from "../protocol/client-messages.ts";
import { Store } from "../state/store.ts";
import {
  type Answer,
  buildMessages,
  type ChatEntry,
  ChatExchange,
  type ChatExchangeOptions,
  NEW_EXCHANGE,
  partAt,
  type RequestMessages,
} from "./chat-exchange.ts";

/** What the next request contains besides the messages. */
export interface ChatSetup {
  readonly system: readonly Part[];
  readonly request: Omit<ChatRequest, "messages">;
  readonly exchange: ChatExchangeOptions;
}

export interface ChatLogState {
  readonly entries: readonly ChatEntry[];
  /** Ids of parts that are no longer sent. */
  readonly excluded: ReadonlySet<number>;
}

/** The user leaves the page: the reason why the preparation of a request ends. */
const LEFT = "left";
/** A request that was prepared rejects with it: its chat was cleared. */
export const CLEARED = new DOMException("the chat was cleared", "AbortError");
const EMPTY: ChatLogState = { entries: [], excluded: new Set() };

function blankAnswer(id: number): Answer {
  return {
    role: "assistant",
    id,
    text: "",
    audio: null,
    exchange: { ...NEW_EXCHANGE, phase: "opening" },
    refused: null,
    recordAllowed: true,
  };
}

function stoppedAnswer(answer: Answer): Answer {
  const { exchange } = answer;
  const complete = exchange.phase === "ended";
  const end = exchange.end ?? { by: "user", code: "stopped", message: "" };
  return {
    ...answer,
    refused: null,
    exchange: {
      ...exchange,
      phase: "ended",
      queue: null,
      connection: { state: "none" },
      stopped: exchange.stopped || !complete,
      end: { ...end, cause: undefined },
    },
  };
}

/** Inserts a message that was removed. The ids ascend. */
function restored(entries: readonly ChatEntry[], removed: ChatEntry): readonly ChatEntry[] {
  if (entries.some(({ id }) => id === removed.id)) return entries;
  const place = entries.findLastIndex(({ id }) => id < removed.id) + 1;
  return entries.toSpliced(place, 0, removed);
}

/** A chat: its messages and the current answer. */
export class ChatLog {
  readonly state = new Store<ChatLogState>(EMPTY);
  readonly #setup: (entries: readonly ChatEntry[]) => Promise<ChatSetup>;
  #exchange: ChatExchange | null = null;
  /** Cancels a request that is not sent yet. */
  #preparing: AbortController | null = null;
  #lastId = 0;
  /** How often the chat was cleared or a question edited, which removes messages for good. */
  #removals = 0;
  /** What is shown again if the request cannot be prepared. */
  #before: readonly ChatEntry[] = [];

  /** `setup` is called before every request with the messages. */
  constructor(setup: (entries: readonly ChatEntry[]) => Promise<ChatSetup>) {
    this.#setup = setup;
  }

  /** Whether an answer is being generated. */
  get busy(): boolean {
    return this.#preparing !== null || this.#exchange !== null;
  }

  /** Whether an answer arrives. */
  get isAnswering(): boolean {
    return this.#exchange?.state.value.phase === "active";
  }

  /**
   * Like `again` and `edit`, does nothing while an answer is generated. The question and an empty
   * answer are shown at once. Rejects without a change of the chat if `setup` rejects, and with an
   * AbortError if the user stops before the request is sent.
   */
  async ask(parts: readonly Part[]): Promise<void> {
    await this.#ask([...this.state.value.entries, { role: "user", id: this.#id(), parts }]);
  }

  /** Whether the last answer can be replaced: its question has not been removed. */
  get canAskAgain(): boolean {
    return this.state.value.entries.at(-2)?.role === "user";
  }

  /** Asks the last question again and replaces its answer. */
  async again(): Promise<void> {
    if (this.canAskAgain) await this.#ask(this.state.value.entries.slice(0, -1));
  }

  /** Replaces a question and removes everything after it. */
  async edit(id: number, parts: readonly Part[]): Promise<void> {
    const { entries } = this.state.value;
    const queue = entries.findIndex((one) => one.id === id);
    if (!this.busy) this.#removals += 1;
    await this.#ask([...entries.slice(0, queue), { role: "user", id, parts }]);
  }

  /** Replaces the text of an answer and removes its audio. */
  rewrite(id: number, text: string): void {
    this.#change(id, { text, audio: null });
  }

  /**
   * Deletes a message. Returns a function that restores it at its place. It does nothing after the
   * chat was cleared, or a question was edited.
   */
  remove(id: number): () => void {
    const { entries } = this.state.value;
    const removed = entries.find((one) => one.id === id);
    this.#patch({ entries: entries.filter((one) => one !== removed) });
    const removals = this.#removals;
    return () => {
      if (!removed || removals !== this.#removals) return;
      this.#before = restored(this.#before, removed);
      this.#patch({ entries: restored(this.state.value.entries, removed) });
    };
  }

  /** Excludes parts from later requests. */
  exclude(parts: readonly Part[]): void {
    const ids = parts.map(({ id }) => id);
    this.#patch({ excluded: new Set([...this.state.value.excluded, ...ids]) });
  }

  /** Returns all parts of a type that are still sent. */
  partsOf(type: PartType): Part[] {
    const { entries, excluded } = this.state.value;
    return entries
      .flatMap((one) => (one.role === "user" ? one.parts : []))
      .filter((part) => part.type === type && !excluded.has(part.id));
  }

  stop(): void {
    this.#stop();
  }

  /** Stops the answer. A question that is not sent yet stays, with a stopped answer. */
  leave(): void {
    this.#stop(LEFT);
  }

  #stop(reason?: unknown): void {
    const preparing = this.#preparing;
    this.#preparing = null;
    preparing?.abort(reason);
    this.#exchange?.stop();
  }

  /** Does not play the rest of the current answer. */
  silence(): void {
    this.#exchange?.silence();
  }

  retryNow(): void {
    this.#exchange?.retryNow();
  }

  /** Shows a stored chat. An answer that was not complete counts as stopped. */
  restore(saved: ChatLogState): void {
    if (this.state.value.entries.length > 0) return;
    const ids = new Map<number, number>();
    const again = (part: Part): Part => {
      const fresh = restoredPart(part);
      ids.set(part.id, fresh.id);
      return fresh;
    };
    const entries = saved.entries.map((one): ChatEntry => {
      return one.role === "user" ? { ...one, parts: one.parts.map(again) } : stoppedAnswer(one);
    });
    this.#lastId = Math.max(0, ...entries.map(({ id }) => id));
    const excluded = new Set([...saved.excluded].map((id) => ids.get(id) ?? 0));
    this.state.set({ entries, excluded });
  }

  clear(): void {
    this.#stop(CLEARED);
    this.#exchange = null;
    this.#removals += 1;
    this.state.set(EMPTY);
  }

  async #ask(questions: readonly ChatEntry[]): Promise<void> {
    if (this.busy) return;
    const preparing = new AbortController();
    const { signal } = preparing;
    this.#before = this.state.value.entries;
    const answer = blankAnswer(this.#id());
    this.#preparing = preparing;
    this.#patch({ entries: [...questions, answer] });
    try {
      const stopped = new Promise<never>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      });
      const { system, request, exchange } = await Promise.race([this.#setup(questions), stopped]);
      const asked = this.state.value.entries.slice(0, -1); // the user may have edited an answer
      const history = buildMessages(system, asked, this.state.value.excluded);
      const { messages } = history;
      this.#change(answer.id, { recordAllowed: request.record ?? true });
      this.#begin(answer.id, new ChatExchange({ ...request, messages }, exchange), history);
    } catch (error) {
      if (signal.reason === LEFT) this.#change(answer.id, stoppedAnswer(answer));
      else {
        this.#takeBack(answer.id);
        throw error;
      }
    } finally {
      if (this.#preparing === preparing) this.#preparing = null;
    }
  }

  /** Shows the messages as before, with answers that were edited since. Not if the chat was cleared. */
  #takeBack(id: number): void {
    const { entries } = this.state.value;
    if (!entries.some((one) => one.id === id)) return;
    const answers = new Map(
      entries.flatMap((one) => (one.role === "assistant" ? [[one.id, one]] : [])),
    );
    this.#patch({ entries: this.#before.map((one) => answers.get(one.id) ?? one) });
  }

  #begin(id: number, exchange: ChatExchange, history: RequestMessages): void {
    this.#exchange = exchange;
    exchange.state.subscribe((state) => {
      if (this.#exchange !== exchange) return; // the chat was cleared
      const ended = state.phase === "ended";
      if (ended) this.#exchange = null;
      const audio = ended && exchange.audio.length > 0 ? exchange.audio : null;
      const refused = partAt(history, state.end?.field);
      this.#change(id, { text: state.text, exchange: state, audio, refused });
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
