import type { Samples } from "../audio/pcm.ts";
import { isNotEmpty, type Part, toContentPart } from "../media/parts.ts";
import type { ChatMessage } from "../protocol/chat-messages.ts";
import type { ChatExchangeState } from "./chat-exchange.ts";

/** What the user said. */
export interface Question {
  readonly role: "user";
  readonly id: number;
  readonly parts: readonly Part[];
}

/** What the model said, or why it did not. */
export interface Answer {
  readonly role: "assistant";
  readonly id: number;
  /** The reader may have changed it. */
  readonly text: string;
  /** 24 kHz; null until it is complete, and where nothing was spoken. */
  readonly sound: Samples | null;
  /** How it came to be, or how far it is. */
  readonly exchange: ChatExchangeState;
  /** What the server could not use. */
  readonly refused: Part | null;
  /** A recording was allowed. */
  readonly kept: boolean;
}

export type ChatEntry = Question | Answer;

/** Messages as the wire has them, and what each of their parts is to the page. */
export interface RequestMessages {
  readonly messages: ChatMessage[];
  readonly parts: readonly (readonly Part[])[];
}

/** Everything that is to be sent: instructions, questions, answers, but for parts with these ids. */
export function buildMessages(
  system: readonly Part[],
  entries: readonly ChatEntry[],
  leftOut: ReadonlySet<number>,
): RequestMessages {
  const all = [{ role: "system" as const, parts: system }, ...entries.map(outgoing)]
    .map(({ role, parts }) => ({ role, parts: parts.filter((part) => counts(part, leftOut)) }))
    .filter(({ parts }) => parts.length > 0);
  return {
    messages: all.map(({ role, parts }) => ({ role, content: parts.map(toContentPart) })),
    parts: all.map(({ parts }) => parts),
  };
}

/** What an error's field means: `messages.1.content.0`, with or without `.data`. */
export function partAt({ parts }: RequestMessages, field: string | undefined): Part | null {
  const [, message, part] = /^messages\.(\d+)\.content\.(\d+)/.exec(field ?? "") ?? [];
  return parts[Number(message)]?.[Number(part)] ?? null;
}

function outgoing(one: ChatEntry): { role: ChatEntry["role"]; parts: readonly Part[] } {
  if (one.role === "user") return one;
  return { role: one.role, parts: [{ id: 0, type: "text", text: one.text }] };
}

function counts(part: Part, leftOut: ReadonlySet<number>): boolean {
  return isNotEmpty(part) && !leftOut.has(part.id);
}
