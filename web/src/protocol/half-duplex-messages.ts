import type { WireAudio } from "./frames.ts";
import { flag, messageReader, number, or, shape, sound, text } from "./message-reader.ts";
import { error, queueDone, queued, queueUpdate } from "./queue-messages.ts";

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
