import { fetchJson } from "../api/http.ts";
import { encodeText, type WireAudio, type WireImage } from "./frames.ts";
import {
  flag,
  isRecord,
  type MessageOf,
  messageReader,
  number,
  or,
  shape,
  sound,
  text,
} from "./message-reader.ts";
import { error, queueDone, queued, queueUpdate } from "./queue-messages.ts";

/** Messages of `/ws/chat` in both directions, and the request of `POST /api/chat`. */

export type ContentPart =
  | { type: "text"; text: string }
  | { type: "audio"; data: WireAudio }
  | { type: "image"; data: WireImage }
  | { type: "video"; data: WireImage; stack_frames?: number };

export interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string | ContentPart[];
}

export interface ChatRequest {
  messages: ChatMessage[];
  streaming?: boolean | undefined;
  generation?:
    | {
        max_new_tokens?: number;
        length_penalty?: number;
        temperature?: number;
        top_p?: number;
        top_k?: number;
        do_sample?: boolean;
      }
    | undefined;
  image?: { max_slice_nums?: number } | undefined;
  tts?:
    | {
        enabled?: boolean;
        mode?: "default" | "audio_assistant" | "omni" | "audio_roleplay" | "voice_cloning";
        ref_audio_data?: WireAudio | undefined;
        ref_audio_path?: string | undefined;
      }
    | undefined;
  use_tts_template?: boolean | undefined;
  omni_mode?: boolean | undefined;
  enable_thinking?: boolean | undefined;
  /** False: the server records nothing. */
  record?: boolean | undefined;
}

export type ChatClientMessage = ChatRequest | { type: "stop" };

const done = shape("done", {
  text,
  generated_tokens: or(number, 0),
  input_tokens: or(number, 0),
  recording_session_id: or(text, null),
  stopped: or(flag, false),
  audio_data: or(sound, null),
});
export type ChatDone = MessageOf<typeof done>;

export const readChatMessage = messageReader(
  queued,
  queueUpdate,
  queueDone,
  /** Share of the request that has been read, 0 to 1. */
  shape("progress", { done: number }),
  shape("prefill_done", { input_tokens: or(number, 0) }),
  shape("chunk", { text_delta: or(text, ""), audio_data: or(sound, new Float32Array(0)) }),
  done,
  error,
);
export type ChatServerMessage = NonNullable<ReturnType<typeof readChatMessage>>;

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
