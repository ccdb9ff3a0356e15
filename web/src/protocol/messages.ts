import type { WireAudio, WireImage } from "./frames.ts";
import {
  flag,
  type MessageOf,
  messageReader,
  number,
  or,
  record,
  shape,
  sound,
  text,
} from "./message-reader.ts";

const place = {
  ticket_id: text,
  position: number,
  queue_length: number,
  estimated_wait_s: or(number, null),
  reason: or(text, null),
};

/**
 * Queue messages of all protocols except realtime. Times are in seconds, positions count from 1.
 * Without an estimate there is a `reason`: no worker can take the session. Updates after
 * `queue_done` mean that the worker was lost, until position 0. `stale`: the server cannot read the
 * queue.
 */
export const queued = shape("queued", place);
export const queueUpdate = shape("queue_update", { ...place, stale: or(flag, false) });
export const queueDone = shape("queue_done", {});

/** `code` is for programs, `message` for people. `field` names the invalid field of a message. */
export const error = shape("error", {
  message: text,
  code: or(text, "unknown"),
  field: or(text, null),
});

/**
 * A limit is near. `limit` is `duration` or `context`. For `context` the seconds are an estimate.
 */
export const notice = shape("notice", { limit: text, seconds_left: number });

export type Notice = MessageOf<typeof notice>;
export type Queued = MessageOf<typeof queued>;
export type QueueUpdate = MessageOf<typeof queueUpdate>;
export type ErrorMessage = MessageOf<typeof error>;

/** Messages of `/ws/duplex/{session_id}` in both directions. */

export interface DuplexConfig {
  generate_audio: boolean;
  ls_mode: "explicit" | "implicit";
  force_listen_count: number;
  max_new_speak_tokens_per_chunk: number;
  temperature: number;
  top_k: number;
  top_p: number;
  listen_prob_scale: number;
  chunk_ms: number;
  max_slice_nums: number;
  /** What the model says first. */
  greeting: string;
}

export interface DuplexPrepare {
  prefix_system_prompt: string;
  config?: Partial<DuplexConfig> | undefined;
  /** Path of a voice on the server. */
  ref_audio_path?: string | undefined;
  /** Voice audio at 16 kHz. `tts_` overrides the output voice only. */
  ref_audio_base64?: WireAudio | undefined;
  tts_ref_audio_base64?: WireAudio | undefined;
  max_slice_nums?: number | undefined;
  /** False: the server records nothing. */
  record?: boolean | undefined;
}

export type DuplexClientMessage =
  | ({ type: "prepare" } & DuplexPrepare)
  | {
      type: "audio_chunk";
      audio: WireAudio;
      frame_base64_list?: WireImage[] | undefined;
      force_listen?: boolean | undefined;
      max_slice_nums?: number | undefined;
    }
  | { type: "pause"; timeout?: number | undefined }
  | { type: "resume" }
  /** How much of the current answer has been played. */
  | { type: "playback_ack"; played_ms: number }
  | { type: "stop" }
  | { type: "client_diagnostic"; metrics: Record<string, unknown> };

const prepared = shape("prepared", {
  prompt_length: number,
  recording_session_id: or(text, null),
});

/** One unit. `current_time` and costs are in ms, `server_send_ts` in Unix seconds. */
const result = shape("result", {
  is_listen: flag,
  text: or(text, ""),
  audio_data: or(sound, new Float32Array(0)),
  end_of_turn: or(flag, false),
  current_time: number,
  cost_llm_ms: or(number, 0),
  cost_tts_ms: or(number, 0),
  cost_all_ms: or(number, 0),
  n_tokens: or(number, 0),
  n_tts_tokens: or(number, 0),
  server_send_ts: number,
  wall_clock_ms: or(number, 0),
  kv_cache_length: or(number, 0),
  vision_slices: or(number, 0),
  vision_tokens: or(number, 0),
  simulated: or(flag, false),
  user_text: or(text, ""),
  timing: or(record, null),
});

const paused = shape("paused", { timeout: or(number, null) });
const resumed = shape("resumed", {});
const stopped = shape("stopped", { session_id: or(text, "") });
const timeout = shape("timeout", { reason: or(text, "") });

export type DuplexResult = MessageOf<typeof result>;

export const readDuplexMessage = messageReader(
  queued,
  queueUpdate,
  queueDone,
  prepared,
  result,
  paused,
  resumed,
  stopped,
  timeout,
  notice,
  error,
);
export type DuplexServerMessage = NonNullable<ReturnType<typeof readDuplexMessage>>;

/**
 * Messages of `/ws/half_duplex/{session_id}` in both directions. Durations are in ms unless the
 * name says otherwise.
 */

export interface HalfDuplexConfig {
  vad?: {
    threshold?: number;
    min_speech_duration_ms?: number;
    min_silence_duration_ms?: number;
    speech_pad_ms?: number;
  };
  generation?: {
    max_new_tokens?: number;
    length_penalty?: number;
    temperature?: number;
    top_p?: number;
    top_k?: number;
  };
  tts?: { enabled?: boolean };
  /** What the model says first. */
  greeting?: string;
  session?: { timeout_s?: number };
}

export type SystemItem = { type: "text"; text: string } | { type: "audio"; data: WireAudio };

export interface HalfDuplexPrepare {
  system_prompt?: string | undefined;
  /** Replaces the prompt: texts and voices in order. */
  system_content?: SystemItem[] | undefined;
  config?: HalfDuplexConfig | undefined;
  /** Output voice, 16 kHz. */
  ref_audio_base64?: WireAudio | undefined;
  /** False: the server records nothing. */
  record?: boolean | undefined;
}

export type HalfDuplexClientMessage =
  | ({ type: "prepare" } & HalfDuplexPrepare)
  | { type: "audio_chunk"; audio_base64: WireAudio }
  | { type: "stop" };

export const readHalfDuplexMessage = messageReader(
  queued,
  queueUpdate,
  queueDone,
  shape("prepared", {
    session_id: text,
    timeout_s: number,
    recording_session_id: or(text, null),
    prompt_length: or(number, 0),
  }),
  shape("vad_state", { speaking: flag }),
  shape("generating", { speech_duration_ms: number }),
  shape("chunk", { text_delta: or(text, ""), audio_data: or(sound, new Float32Array(0)) }),
  shape("turn_done", { turn_index: number, text, user_text: or(text, "") }),
  shape("stopped", { session_id: or(text, "") }),
  shape("timeout", { elapsed_s: or(number, 0) }),
  error,
);
export type HalfDuplexServerMessage = NonNullable<ReturnType<typeof readHalfDuplexMessage>>;

/** Messages of `/ws/chat` in both directions. */

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
