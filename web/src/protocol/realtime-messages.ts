import type { WireAudio, WireImage } from "./frames.ts";
import {
  type FieldReader,
  flag,
  isRecord,
  messageReader,
  number,
  or,
  shape,
  sound,
  text,
} from "./message-reader.ts";

/** Messages of `/v1/realtime?mode=video|audio` in both directions. */

export type RealtimeClientMessage =
  | {
      type: "session.update";
      session: {
        instructions: string;
        max_slice_nums?: number | undefined;
        /** 16 kHz. */
        ref_audio?: WireAudio | undefined;
        tts_ref_audio?: WireAudio | undefined;
        /** False: the server records nothing. */
        record?: boolean | undefined;
      };
    }
  | {
      type: "input_audio_buffer.append";
      audio: WireAudio;
      video_frames?: WireImage[] | undefined;
      force_listen?: boolean | undefined;
      max_slice_nums?: number | undefined;
    }
  /** How much of the current answer has been played. */
  | { type: "output_audio_buffer.playback_ack"; played_ms: number }
  | { type: "session.close"; reason?: string | undefined };

const place = {
  position: number,
  estimated_wait_s: or(number, null),
  queue_length: number,
  reason: or(text, null),
};

export interface RealtimeError {
  readonly code: string;
  readonly message: string;
  /** Whether the client or the server caused it. */
  readonly type: string;
}

const problem: FieldReader<RealtimeError> = (value) => {
  if (!isRecord(value)) return undefined;
  const { code, message, type } = value;
  const known = typeof code === "string" && typeof message === "string" && typeof type === "string";
  return known ? { code, message, type } : undefined;
};

export const readRealtimeMessage = messageReader(
  shape("session.queued", { ...place, ticket_id: or(text, "") }),
  shape("session.queue_update", place),
  shape("session.queue_done", {}),
  shape("session.created", { session_id: text, prompt_length: or(number, 0) }),
  shape("response.output_audio.delta", {
    text,
    audio: sound,
    end_of_turn: flag,
    kv_cache_length: number,
  }),
  shape("response.listen", { kv_cache_length: number }),
  shape("session.notice", { limit: text, seconds_left: number }),
  shape("session.closed", { reason: text }),
  shape("error", { error: problem }),
);
export type RealtimeServerMessage = NonNullable<ReturnType<typeof readRealtimeMessage>>;
