import type { WireAudio, WireImage } from "./frames.ts";

/** Messages of `/ws/duplex/{session_id}` from the page. */

export interface DuplexConfig {
  generate_audio: boolean;
  /** IANA name of the user's time zone. */
  time_zone: string;
  /** The result in which the answer to a goodbye ends has `goodbye`. */
  end_on_goodbye: boolean;
  ls_mode: "explicit" | "implicit";
  force_listen_count: number;
  max_new_speak_tokens_per_chunk: number;
  temperature: number;
  top_k: number;
  top_p: number;
  listen_prob_scale: number;
  chunk_ms: number;
  max_slice_nums: number;
  /** Id of one of the engine's voices. */
  voice: string | undefined;
  /** What the model says first. */
  greeting: string;
  /** Send the user's words while the user speaks. */
  interim_transcripts: boolean;
  /** Stop the model for the user's speech, but not for a cough or "mm-hmm". */
  barge_in: boolean;
  /** Ask for the user after so many seconds of silence. 0: never. */
  check_in_s: number;
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

/**
 * Messages of `/ws/half_duplex/{session_id}` from the page. Durations are in ms unless the name
 * says otherwise.
 */

export interface HalfDuplexConfig {
  /** IANA name of the user's time zone. */
  time_zone?: string;
  /** The `turn_done` after the answer to a goodbye has `goodbye`. */
  end_on_goodbye?: boolean;
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
  /** `voice`: id of one of the engine's voices. */
  tts?: { enabled?: boolean; voice?: string | undefined };
  /** What the model says first. */
  greeting?: string;
  /** Send the user's words while the user speaks. */
  interim_transcripts?: boolean;
  /** Hear the user during answers, and stop them for speech. */
  barge_in?: boolean;
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

/** Messages of `/ws/chat` from the page. */

export type ContentPart =
  | { type: "text"; text: string }
  | { type: "audio"; data: WireAudio }
  | { type: "image"; data: WireImage }
  | { type: "video"; data: WireImage; stack_frames?: number };

export interface ChatMessage {
  /** `tool`: the result of a call. */
  role: "system" | "user" | "assistant" | "tool";
  /** Null only with `tool_calls`. */
  content: string | ContentPart[] | null;
  /** What an earlier answer called, as in its `done`. */
  tool_calls?: Record<string, unknown>[] | null | undefined;
  /** Of the call whose result this is. */
  tool_call_id?: string | undefined;
}

/** A function that the model may call, as in OpenAI's API. */
export interface ChatTool {
  type: "function";
  function: {
    name: string;
    description?: string | undefined;
    /** JSON Schema of type `object`. */
    parameters?: Record<string, unknown> | undefined;
  };
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
        /** Id of one of the engine's voices. */
        voice?: string | undefined;
        mode?: "default" | "audio_assistant" | "omni" | "audio_roleplay" | "voice_cloning";
        ref_audio_data?: WireAudio | undefined;
        ref_audio_path?: string | undefined;
        /** How much of the voice is used, from its beginning. */
        ref_audio_max_ms?: number | undefined;
      }
    | undefined;
  tools?: ChatTool[] | undefined;
  use_tts_template?: boolean | undefined;
  omni_mode?: boolean | undefined;
  enable_thinking?: boolean | undefined;
  /** IANA name of the user's time zone. */
  time_zone?: string | undefined;
  /** False: the server records nothing. */
  record?: boolean | undefined;
}

export type ChatClientMessage = ChatRequest | { type: "stop" };
