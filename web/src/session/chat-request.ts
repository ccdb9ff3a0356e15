import type { Samples } from "../audio/pcm.ts";
import { isNotEmpty, type Part, toContentPart } from "../media/parts.ts";
import type { ChatMessage } from "../protocol/chat-messages.ts";
import type { ChatExchangeState } from "./chat-exchange.ts";

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
