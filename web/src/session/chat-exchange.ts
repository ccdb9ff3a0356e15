import { concatSamples, type Samples } from "../audio/pcm.ts";
import type { Player } from "../audio/player.ts";
import { isNotEmpty, type Part, toContentPart } from "../media/parts.ts";
import type { ChatClientMessage, ChatMessage, ChatRequest } from "../protocol/client-messages.ts";
import { type ClientOptions, connectChat } from "../protocol/clients.ts";
import type { ChatServerMessage } from "../protocol/server-messages.ts";
import { NEW_SESSION, Session, type SessionState } from "./session.ts";

/** A message of the user. */
export interface Question {
  readonly role: "user";
  readonly id: number;
  readonly parts: readonly Part[];
}

/** A message of the model, or the reason why there is none. */
export interface Answer {
  readonly role: "assistant";
  readonly id: number;
  /** Includes edits of the user. */
  readonly text: string;
  /** 24 kHz. Null until complete, or if nothing was spoken. */
  readonly audio: Samples | null;
  /** State of the request. */
  readonly exchange: ChatExchangeState;
  /** The part that the server rejected. */
  readonly refused: Part | null;
  /** Whether it may be recorded. */
  readonly recordAllowed: boolean;
}

export type ChatEntry = Question | Answer;

/** Messages in the format of the protocol, and the page's part for each content part. */
export interface RequestMessages {
  readonly messages: ChatMessage[];
  readonly parts: readonly (readonly Part[])[];
}

/**
 * Builds the messages of a request: instructions, questions and answers, without the excluded
 * parts.
 */
export function buildMessages(
  system: readonly Part[],
  entries: readonly ChatEntry[],
  excluded: ReadonlySet<number>,
): RequestMessages {
  const all = [{ role: "system" as const, parts: system }, ...entries.map(outgoing)]
    .map(({ role, parts }) => ({ role, parts: parts.filter((part) => counts(part, excluded)) }))
    .filter(({ parts }) => parts.length > 0);
  return {
    messages: all.map(({ role, parts }) => ({ role, content: parts.map(toContentPart) })),
    parts: all.map(({ parts }) => parts),
  };
}

/** Finds the part of an error field such as `messages.1.content.0`, with or without `.data`. */
export function partAt({ parts }: RequestMessages, field: string | undefined): Part | null {
  const [, message, part] = /^messages\.(\d+)\.content\.(\d+)/.exec(field ?? "") ?? [];
  return parts[Number(message)]?.[Number(part)] ?? null;
}

function outgoing(one: ChatEntry): { role: ChatEntry["role"]; parts: readonly Part[] } {
  if (one.role === "user") return one;
  return { role: one.role, parts: [{ id: 0, type: "text", text: one.text }] };
}

function counts(part: Part, excluded: ReadonlySet<number>): boolean {
  return isNotEmpty(part) && !excluded.has(part.id);
}

export interface ChatExchangeOptions {
  /** Plays the answer. Without a player the audio is only stored. */
  player?: Player | undefined;
  /** Key and server, see `socketProtocols()`. */
  connection?: ClientOptions;
}

export interface ChatExchangeState extends SessionState {
  readonly text: string;
  /** Share of the request that has been read, 0 to 1. */
  readonly read: number;
  readonly inputTokens: number;
  readonly generatedTokens: number;
  /** The user stopped the answer. */
  readonly stopped: boolean;
  /** Since the request, including the queue, ms. */
  readonly firstTextMs: number | null;
  readonly firstAudioMs: number | null;
}

/** Before the request is sent. */
export const NEW_EXCHANGE: ChatExchangeState = {
  ...NEW_SESSION,
  text: "",
  read: 0,
  inputTokens: 0,
  generatedTokens: 0,
  stopped: false,
  firstTextMs: null,
  firstAudioMs: null,
};

/**
 * One request and its answer. `preparing` until the request is read, `active` while the answer
 * arrives. `end` tells whether it is complete: `{by: "user", code: "answered" | "stopped"}`.
 */
export class ChatExchange extends Session<ChatExchangeState, ChatServerMessage, ChatClientMessage> {
  readonly #request: ChatRequest;
  readonly #options: ChatExchangeOptions;
  readonly #audio: Samples[] = [];
  readonly #unsubscribe: (() => void) | undefined;
  #askedAt = 0;
  #isSilent = false;

  constructor(request: ChatRequest, options: ChatExchangeOptions = {}) {
    super(NEW_EXCHANGE);
    this.#request = request;
    this.#options = options;
    this.#unsubscribe = options.player?.on("start", ({ atMs }) => {
      if (this.state.value.firstAudioMs === null)
        this.patch({ firstAudioMs: atMs - this.#askedAt });
    });
  }

  /** Audio so far, 24 kHz. */
  get audio(): Samples {
    return concatSamples(this.#audio);
  }

  /** Sends the request. Call it once. */
  start(): void {
    this.#askedAt = performance.now();
    this.attach(connectChat(this.#options.connection));
    this.patch({ phase: "preparing" });
    this.client.send(this.#request);
  }

  /** Only collects the audio from now on. */
  silence(): void {
    this.#isSilent = true;
    this.#options.player?.flush();
  }

  override stop(): void {
    this.silence();
    super.stop();
  }

  protected override stopMessage(): ChatClientMessage {
    return { type: "stop" };
  }

  protected override release(): void {
    this.#options.player?.endTurn();
    this.#unsubscribe?.();
  }

  protected override onMessage(message: ChatServerMessage): void {
    switch (message.type) {
      case "queued":
      case "queue_update":
        this.onQueued(message);
        break;
      case "queue_done":
        this.onWorkerAssigned();
        break;
      case "progress":
        this.patch({ read: message.done });
        break;
      case "prefill_done":
        this.#go({ read: 1, inputTokens: message.input_tokens });
        break;
      case "chunk":
        this.#chunk(message.text_delta, message.audio_data);
        break;
      case "done":
        this.#done(message);
        break;
      case "error":
        this.onError(message);
    }
  }

  #go(change: Partial<ChatExchangeState>): void {
    const stopping = this.state.value.phase === "stopping";
    this.patch({ ...change, ...(stopping ? {} : { phase: "active" }) });
  }

  #chunk(delta: string | null, audio: Samples | null): void {
    const { text, firstTextMs, phase } = this.state.value;
    const firstText = delta ? (firstTextMs ?? performance.now() - this.#askedAt) : firstTextMs;
    this.#go({ text: text + (delta ?? ""), firstTextMs: firstText });
    if (audio && phase !== "stopping") this.#speak(audio);
  }

  #done(message: Extract<ChatServerMessage, { type: "done" }>): void {
    if (message.audio_data) this.#speak(message.audio_data);
    this.patch({
      text: message.text,
      inputTokens: message.input_tokens,
      generatedTokens: message.generated_tokens,
      recordingId: message.recording_session_id,
      stopped: message.stopped,
    });
    this.end({ by: "user", code: message.stopped ? "stopped" : "answered", message: "" });
  }

  #speak(audio: Samples): void {
    this.#audio.push(audio);
    if (!this.#isSilent) this.#options.player?.push(audio);
  }
}
