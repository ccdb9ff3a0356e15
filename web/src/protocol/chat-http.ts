import { fetchJson } from "../api/http.ts";
import type { ChatRequest } from "./chat-messages.ts";
import { isRecord, number, or, sound, text } from "./field-readers.ts";
import { encodeText } from "./frames.ts";
import { type MessageOf, messageReader, shape } from "./message-reader.ts";

const answer = shape("answer", {
  text,
  audio_data: or(sound, null),
  tokens_generated: or(number, 0),
  duration_ms: or(number, 0),
  recording_session_id: or(text, null),
  queue_wait_ms: or(number, 0),
});
export type ChatAnswer = MessageOf<typeof answer>;

const read = messageReader(answer);

/** `POST /api/chat`: resolves to the complete answer. Rejects with ApiError. */
export async function askChat(request: ChatRequest, signal?: AbortSignal): Promise<ChatAnswer> {
  const body: unknown = JSON.parse(encodeText(request));
  const options = { method: "POST", body, ...(signal ? { signal } : {}) } as const;
  const value = await fetchJson<unknown>("/api/chat", options);
  return read({ ...(isRecord(value) ? value : {}), type: "answer" }) as ChatAnswer;
}
