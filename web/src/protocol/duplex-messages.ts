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
import { error, notice, queueDone, queued, queueUpdate } from "./queue-messages.ts";

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
