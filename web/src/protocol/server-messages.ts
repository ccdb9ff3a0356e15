// Written by `python tools/page_schemas.py` from shared_schemas/messages. Do not edit it.
import * as v from "valibot";
import { sound } from "./message-reader.ts";

/**
 * The session waits; sent only when there is a wait. `position` is 1-based.
 *
 * The two estimates are the same number of seconds. They are missing while no worker can take the
 * session; `reason` is a `WaitReason` then.
 */
export const queued = v.object({
  type: v.literal("queued"),
  ticket_id: v.string(),
  position: v.number(),
  queue_length: v.number(),
  eta_seconds: v.nullish(v.number(), null),
  estimated_wait_s: v.nullish(v.number(), null),
  reason: v.nullish(v.string(), null),
});
export type Queued = v.InferOutput<typeof queued>;

/**
 * The position in the queue, the estimate, or the reason has changed.
 *
 * After `queue_done`: the worker was lost and the session waits for another one, until an update with
 * position 0. `stale` is true while the position cannot be read.
 */
export const queueUpdate = v.object({
  type: v.literal("queue_update"),
  ticket_id: v.string(),
  position: v.number(),
  queue_length: v.number(),
  eta_seconds: v.nullish(v.number(), null),
  estimated_wait_s: v.nullish(v.number(), null),
  reason: v.nullish(v.string(), null),
  stale: v.nullish(v.boolean(), false),
});
export type QueueUpdate = v.InferOutput<typeof queueUpdate>;

/** A worker holds the session; the client may prepare. */
export const queueDone = v.object({ type: v.literal("queue_done") });
export type QueueDone = v.InferOutput<typeof queueDone>;

/**
 * Audio may be sent, best in chunks of `chunk_ms`, a second without it. `prompt_length` in tokens.
 */
export const prepared = v.object({
  type: v.literal("prepared"),
  prompt_length: v.number(),
  recording_session_id: v.nullish(v.string(), null),
  chunk_ms: v.nullish(v.number(), null),
});
export type Prepared = v.InferOutput<typeof prepared>;

/**
 * The result of one unit. `audio_data` is float32 PCM at 24 kHz; `current_time`, costs in ms.
 *
 * `user_text` is what the user said up to this unit. `interim_user_text` is what the user has said so far
 * of the utterance that continues, empty if none does; it replaces that of the unit before. `words` are
 * the words of `text`, each with the millisecond of `audio_data` at which it begins. `interrupted`: the
 * answer before this unit was cut; audio of it that has not been played must be dropped.
 */
export const result = v.object({
  type: v.literal("result"),
  is_listen: v.boolean(),
  text: v.string(),
  audio_data: sound,
  end_of_turn: v.boolean(),
  current_time: v.number(),
  cost_llm_ms: v.number(),
  cost_tts_prep_ms: v.number(),
  cost_tts_ms: v.number(),
  cost_token2wav_ms: v.number(),
  cost_all_ms: v.number(),
  n_tokens: v.number(),
  n_tts_tokens: v.number(),
  server_send_ts: v.number(),
  wall_clock_ms: v.number(),
  kv_cache_length: v.number(),
  vision_slices: v.number(),
  vision_tokens: v.number(),
  simulated: v.nullish(v.boolean(), false),
  timing: v.nullish(v.record(v.string(), v.number()), null),
  user_text: v.nullish(v.string(), null),
  interim_user_text: v.nullish(v.string(), null),
  words: v.nullish(v.array(v.tuple([v.number(), v.string()])), null),
  goodbye: v.nullish(v.boolean(), false),
  interrupted: v.nullish(v.boolean(), false),
});
export type Result = v.InferOutput<typeof result>;

/** The session is paused for at most `timeout` seconds. */
export const paused = v.object({
  type: v.literal("paused"),
  timeout: v.number(),
});
export type Paused = v.InferOutput<typeof paused>;

/**
 * The session is active again after a pause.
 *
 * With a `resume_token`, in any protocol, it is the first message to a client that has resumed:
 * everything after `seq` follows.
 */
export const resumed = v.object({ type: v.literal("resumed") });
export type Resumed = v.InferOutput<typeof resumed>;

/** The session has ended as the client asked. */
export const stopped = v.object({
  type: v.literal("stopped"),
  session_id: v.string(),
});
export type Stopped = v.InferOutput<typeof stopped>;

/** The pause, or the silence of the client, lasted too long; the session has ended. */
export const timeout = v.object({
  type: v.literal("timeout"),
  reason: v.string(),
});
export type Timeout = v.InferOutput<typeof timeout>;

/**
 * A limit is near. `limit`: `duration` or `context`; `seconds_left` is an estimate for the latter.
 */
export const notice = v.object({
  type: v.literal("notice"),
  limit: v.string(),
  seconds_left: v.number(),
});
export type Notice = v.InferOutput<typeof notice>;

/** Something went wrong. `error` and `message` are the same text. */
export const errorMessage = v.object({
  type: v.literal("error"),
  error: v.string(),
  message: v.string(),
  code: v.string(),
  field: v.nullish(v.string(), null),
  retryable: v.nullish(v.boolean(), false),
});
export type ErrorMessage = v.InferOutput<typeof errorMessage>;

/** Audio may be sent; the session ends after `timeout_s` without any. `prompt_length` in tokens. */
export const halfDuplexPrepared = v.object({
  type: v.literal("prepared"),
  session_id: v.string(),
  timeout_s: v.number(),
  recording_session_id: v.string(),
  prompt_length: v.number(),
});
export type HalfDuplexPrepared = v.InferOutput<typeof halfDuplexPrepared>;

/**
 * The user started or stopped speaking.
 *
 * It is repeated with `interim_user_text`, what the user has said so far, if the session asks for it.
 */
export const vadState = v.object({
  type: v.literal("vad_state"),
  speaking: v.boolean(),
  interim_user_text: v.nullish(v.string(), null),
});
export type VadState = v.InferOutput<typeof vadState>;

/** The user has finished; the answer starts. */
export const generating = v.object({
  type: v.literal("generating"),
  speech_duration_ms: v.number(),
});
export type Generating = v.InferOutput<typeof generating>;

/** A part of the answer; text or audio may be empty. Float32 PCM at 24 kHz. */
export const turnChunk = v.object({
  type: v.literal("chunk"),
  text_delta: v.string(),
  audio_data: sound,
});
export type TurnChunk = v.InferOutput<typeof turnChunk>;

/**
 * The answer is complete. `turn_index` counts from 0.
 *
 * `goodbye` is true if the answer to a goodbye ends and the client asked for that.
 */
export const turnDone = v.object({
  type: v.literal("turn_done"),
  turn_index: v.number(),
  text: v.string(),
  user_text: v.nullish(v.string(), null),
  goodbye: v.nullish(v.boolean(), false),
});
export type TurnDone = v.InferOutput<typeof turnDone>;

/**
 * The user interrupted answer `turn_index`: audio of it that has not been played must be dropped.
 *
 * `text` and `played_ms` are the part of it that was played by now. Only for sessions with `barge_in`.
 */
export const interrupted = v.object({
  type: v.literal("interrupted"),
  turn_index: v.number(),
  played_ms: v.number(),
  text: v.string(),
});
export type Interrupted = v.InferOutput<typeof interrupted>;

/** The session has ended because no audio arrived for too long. */
export const halfDuplexTimeout = v.object({
  type: v.literal("timeout"),
  elapsed_s: v.number(),
  reason: v.string(),
});
export type HalfDuplexTimeout = v.InferOutput<typeof halfDuplexTimeout>;

/** The share of the request, 0 to 1, that has been processed; only for clients that asked. */
export const prefillProgress = v.object({
  type: v.literal("progress"),
  done: v.number(),
});
export type PrefillProgress = v.InferOutput<typeof prefillProgress>;

/** The request has been processed. */
export const prefillDone = v.object({
  type: v.literal("prefill_done"),
  input_tokens: v.number(),
});
export type PrefillDone = v.InferOutput<typeof prefillDone>;

/** A part of the answer; float32 PCM at 24 kHz. None-valued fields are not sent. */
export const chatChunk = v.object({
  type: v.literal("chunk"),
  text_delta: v.nullish(v.string(), null),
  audio_data: v.nullish(sound, null),
});
export type ChatChunk = v.InferOutput<typeof chatChunk>;

/**
 * The streamed answer is complete. `stopped` is sent when the client interrupted it.
 *
 * `tool_calls` are sent when the model calls tools: `id`, `type` and `function` of each.
 */
export const chatDone = v.object({
  type: v.literal("done"),
  text: v.string(),
  generated_tokens: v.number(),
  input_tokens: v.number(),
  recording_session_id: v.string(),
  stopped: v.nullish(v.boolean(), false),
  tool_calls: v.nullish(v.array(v.record(v.string(), v.unknown())), null),
  audio_data: v.nullish(sound, null),
});
export type ChatDone = v.InferOutput<typeof chatDone>;

export const duplexServerMessage = v.variant("type", [
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
  errorMessage,
]);
export type DuplexServerMessage = v.InferOutput<typeof duplexServerMessage>;

export const halfDuplexServerMessage = v.variant("type", [
  queued,
  queueUpdate,
  queueDone,
  halfDuplexPrepared,
  vadState,
  generating,
  turnChunk,
  turnDone,
  interrupted,
  stopped,
  halfDuplexTimeout,
  errorMessage,
]);
export type HalfDuplexServerMessage = v.InferOutput<typeof halfDuplexServerMessage>;

export const chatServerMessage = v.variant("type", [
  queued,
  queueUpdate,
  queueDone,
  prefillProgress,
  prefillDone,
  chatChunk,
  chatDone,
  errorMessage,
]);
export type ChatServerMessage = v.InferOutput<typeof chatServerMessage>;
