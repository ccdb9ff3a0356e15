// Written by `python tools/page_schemas.py` from the models of the edge. Do not edit it.
import * as v from "valibot";

/** `success` is false if there was nothing to act on. */
export const actionResult = v.object({
  success: v.boolean(),
});
export type ActionResult = v.InferOutput<typeof actionResult>;

/** A switch and its state. */
export const appInfo = v.object({
  app_id: v.string(),
  name: v.string(),
  route: v.string(),
  enabled: v.boolean(),
});
export type AppInfo = v.InferOutput<typeof appInfo>;

/** All switches. */
export const appList = v.object({
  apps: v.array(appInfo),
});
export type AppList = v.InferOutput<typeof appList>;

/** The new state of a switch. */
export const appSwitched = v.object({
  success: v.boolean(),
  app: appInfo,
});
export type AppSwitched = v.InferOutput<typeof appSwitched>;

/** The kind of a session; workers claim by kind. */
export const sessionKind = v.picklist([
  "chat",
  "half_duplex_audio",
  "audio_duplex",
  "omni_duplex",
  "turns",
]);
export type SessionKind = v.InferOutput<typeof sessionKind>;

/**
 * A client chooses one, and needs no recording of it.
 *
 * `id` is what `voice` takes in the settings of a session; `language` is a tag such as `en-GB`.
 */
export const namedVoice = v.object({
  id: v.string(),
  name: v.string(),
  language: v.string(),
  gender: v.picklist(["female", "male"]),
});
export type NamedVoice = v.InferOutput<typeof namedVoice>;

/** One engine with one model, on one or more workers. */
export const engineCapabilities = v.object({
  engine: v.string(),
  model: v.string(),
  /** that run it or load it */
  workers: v.number(),
  /** kinds of sessions that it serves */
  kinds: v.array(sessionKind),
  /** codes of languages that it understands; empty: unknown */
  hears: v.array(v.string()),
  /** codes of languages that it speaks; empty: unknown */
  speaks: v.array(v.string()),
  /** images and video */
  sees: v.boolean(),
  /** of pictures, it recognises everyday objects, colours and text only */
  sees_in_words: v.boolean(),
  /** speaks with a reference voice */
  clones_voices: v.boolean(),
  /** chooses the nearest of its voices for a reference voice, which it does not imitate */
  matches_voices: v.boolean(),
  calls_tools: v.boolean(),
  /** speaks the `greeting` of a session first */
  greets: v.boolean(),
  /** sends the user's words while the user speaks */
  interim_transcripts: v.boolean(),
  /** the length of a full-duplex chunk that suits it best */
  chunk_ms: v.number(),
  /** makes transcripts of sound files */
  transcribes: v.boolean(),
  /** speaks texts as they stand */
  reads_aloud: v.boolean(),
  /** what `voice` of a session may name */
  voices: v.array(namedVoice),
  /** no model: its answers have no meaning */
  simulated: v.boolean(),
});
export type EngineCapabilities = v.InferOutput<typeof engineCapabilities>;

/** What the live engines can do. Several engines: what any of them can do. */
export const capabilities = v.object({
  /** the models; null if no worker runs or loads one */
  model: v.nullable(v.string()),
  engines: v.array(engineCapabilities),
  kinds: v.array(sessionKind),
  /** empty: unknown */
  hears: v.array(v.string()),
  /** empty: unknown */
  speaks: v.array(v.string()),
  sees: v.boolean(),
  /** true if all engines that see do so in words */
  sees_in_words: v.boolean(),
  clones_voices: v.boolean(),
  matches_voices: v.boolean(),
  calls_tools: v.boolean(),
  /** true if all engines with spoken sessions greet */
  greets: v.boolean(),
  /** true if all engines with spoken sessions do */
  interim_transcripts: v.boolean(),
  /** the longest that an engine with spoken sessions asks for */
  chunk_ms: v.number(),
  transcribes: v.boolean(),
  reads_aloud: v.boolean(),
  /** those that all engines with speech have */
  voices: v.array(namedVoice),
  /** true if all engines are simulated */
  simulated: v.boolean(),
});
export type Capabilities = v.InferOutput<typeof capabilities>;

/**
 * Durations of one unit. `all_ms` is the engine's share, `wall_clock_ms` the worker's.
 *
 * `edge_to_worker_ms`: from the edge's timestamp of the chunk until the worker reads it.
 */
export const unitTiming = v.object({
  prefill_ms: v.number(),
  llm_ms: v.number(),
  tts_prep_ms: v.number(),
  tts_ms: v.number(),
  token2wav_ms: v.number(),
  all_ms: v.number(),
  wall_clock_ms: v.number(),
  edge_to_worker_ms: v.number(),
  n_tokens: v.number(),
  n_tts_tokens: v.number(),
  kv_cache_length: v.number(),
  vision_slices: v.number(),
  vision_tokens: v.number(),
});
export type UnitTiming = v.InferOutput<typeof unitTiming>;

/**
 * Tokens that a model read (`input_…`) and generated (`output_…`).
 *
 * An entry has the tokens since the last entry with a count. None in place of a count means that
 * the engine does not count. A new worker reads finished units and turns again without counting.
 */
export const tokenUsage = v.object({
  input_text: v.optional(v.number(), 0),
  input_audio: v.optional(v.number(), 0),
  input_vision: v.optional(v.number(), 0),
  output_text: v.optional(v.number(), 0),
  output_audio: v.optional(v.number(), 0),
});
export type TokenUsage = v.InferOutput<typeof tokenUsage>;

/**
 * One result. `user_text` is the engine's transcript of the user, if it makes one.
 *
 * `words`: the words of `text`, each with the millisecond of `ai_audio` at which it begins, if known.
 */
export const unitRecord = v.object({
  mode: v.picklist(["LISTEN", "SPEAK"]),
  publish_ts_ms: v.number(),
  epoch: v.number(),
  timing: unitTiming,
  text: v.nullish(v.string()),
  words: v.nullish(v.array(v.tuple([v.number(), v.string()]))),
  user_text: v.nullish(v.string()),
  ai_audio: v.nullish(v.string()),
  ai_audio_duration_ms: v.nullish(v.number()),
  end_of_turn: v.nullish(v.boolean()),
  simulated: v.nullish(v.boolean()),
  unreadable: v.nullish(v.string()),
  usage: v.nullish(tokenUsage),
});
export type UnitRecord = v.InferOutput<typeof unitRecord>;

/**
 * One chunk of user audio. `input_n` is its number in the input stream.
 *
 * `user_frame` is the first frame, `user_frames` lists all if there are several. `skipped`: the
 * worker dropped it under backpressure. `repeated_results`: further results the client received
 * for the same chunk, after a change of workers, in order.
 */
export const chunkRecord = v.object({
  index: v.number(),
  input_n: v.number(),
  receive_ts_ms: v.number(),
  user_audio: v.nullish(v.string()),
  user_audio_duration_ms: v.nullish(v.number()),
  user_frame: v.nullish(v.string()),
  user_frames: v.nullish(v.array(v.string())),
  force_listen: v.nullish(v.boolean()),
  skipped: v.nullish(v.boolean()),
  unreadable: v.nullish(v.string()),
  result: v.nullish(unitRecord),
  repeated_results: v.nullish(v.array(unitRecord)),
});
export type ChunkRecord = v.InferOutput<typeof chunkRecord>;

/** The comment of a recording; may be empty. */
export const recordingComment = v.object({
  comment: v.optional(v.string(), ""),
});
export type RecordingComment = v.InferOutput<typeof recordingComment>;

/** Metrics that the client measured. */
export const diagnosticRecord = v.object({
  ts_ms: v.number(),
  metrics: v.record(v.string(), v.unknown()),
});
export type DiagnosticRecord = v.InferOutput<typeof diagnosticRecord>;

/**
 * Stream entries `first` to `last` (inclusive, counted from 1).
 *
 * `first_chunk`, `last_chunk`: the duplex chunks among them, by index.
 */
export const entryRange = v.object({
  stream: v.picklist(["in", "out"]),
  first: v.number(),
  last: v.number(),
  first_chunk: v.nullish(v.number()),
  last_chunk: v.nullish(v.number()),
});
export type EntryRange = v.InferOutput<typeof entryRange>;

/** An outage of the disk. `late`: entries that were written late, after `resumed_at`. */
export const diskOutage = v.object({
  at: v.string(),
  error: v.string(),
  resumed_at: v.nullish(v.string()),
  late: v.optional(v.array(entryRange), []),
});
export type DiskOutage = v.InferOutput<typeof diskOutage>;

/** Any other entry; `type` is the stream entry's (prepare, paused, error …). */
export const eventRecord = v.object({
  ts_ms: v.number(),
  type: v.string(),
  input_n: v.nullish(v.number()),
  chunk: v.nullish(v.number()),
  speaking: v.nullish(v.boolean()),
  timeout_s: v.nullish(v.number()),
  elapsed_s: v.nullish(v.number()),
  played_ms: v.nullish(v.number()),
  prompt_length: v.nullish(v.number()),
  usage: v.nullish(tokenUsage),
  reason: v.nullish(v.string()),
  code: v.nullish(v.string()),
  message: v.nullish(v.string()),
  field: v.nullish(v.string()),
  fatal: v.nullish(v.boolean()),
});
export type EventRecord = v.InferOutput<typeof eventRecord>;

/** Entries that were lost and could not be recorded. `why` is the known cause. */
export const gap = v.object({
  stream: v.picklist(["in", "out"]),
  first: v.number(),
  last: v.number(),
  first_chunk: v.nullish(v.number()),
  last_chunk: v.nullish(v.number()),
  why: v.optional(v.string(), ""),
});
export type Gap = v.InferOutput<typeof gap>;

/**
 * `recording.json` of a duplex session. `orphan_results`: results whose chunk is missing.
 *
 * `events_left_out`, `diagnostics_left_out` count those above the limits.
 * `merged_replay`, `merged_replay_video`: file names, once the files exist.
 */
export const duplexRecording = v.object({
  session_id: v.string(),
  recording_id: v.string(),
  mode: v.literal("duplex"),
  app_type: sessionKind,
  worker_id: v.string(),
  start_ts: v.string(),
  config: v.record(v.string(), v.unknown()),
  chunks: v.array(chunkRecord),
  events: v.array(eventRecord),
  events_left_out: v.nullish(v.number()),
  diagnostics: v.array(diagnosticRecord),
  diagnostics_left_out: v.nullish(v.number()),
  orphan_results: v.nullish(v.array(unitRecord)),
  missing: v.nullish(v.array(gap)),
  merged_replay: v.nullish(v.string()),
  merged_replay_video: v.nullish(v.string()),
});
export type DuplexRecording = v.InferOutput<typeof duplexRecording>;

/** Why a session ended; stored in its row, its last event and its recording. */
export const endReason = v.picklist([
  "stopped",
  "timeout",
  "client_gone",
  "cancelled",
  "edge_lost",
  "worker_lost",
  "server_shutdown",
  "context_full",
  "error",
]);
export type EndReason = v.InferOutput<typeof endReason>;

/** Assumed length of a session in seconds, used until enough sessions were measured. */
export const etaConfig = v.object({
  eta_chat_s: v.number(),
  eta_half_duplex_s: v.number(),
  eta_audio_duplex_s: v.number(),
  eta_omni_duplex_s: v.number(),
  eta_turns_s: v.number(),
  /** smoothing factor */
  ema_alpha: v.number(),
});
export type EtaConfig = v.InferOutput<typeof etaConfig>;

/** Baselines, moving averages (seconds) and sample counts. */
export const etaReport = v.object({
  config: etaConfig,
  ema_alpha: v.number(),
  ema_chat_s: v.nullable(v.number()),
  ema_half_duplex_s: v.nullable(v.number()),
  ema_audio_duplex_s: v.nullable(v.number()),
  ema_omni_duplex_s: v.nullable(v.number()),
  ema_turns_s: v.nullable(v.number()),
  ema_chat_samples: v.number(),
  ema_half_duplex_samples: v.number(),
  ema_audio_duplex_samples: v.number(),
  ema_omni_duplex_samples: v.number(),
  ema_turns_samples: v.number(),
});
export type EtaReport = v.InferOutput<typeof etaReport>;

/** Initial settings of the pages. */
export const frontendDefaults = v.object({
  /** audio buffered before playback */
  playback_delay_ms: v.number(),
  /** language of the pages; default: the browser's */
  default_lang: v.nullish(v.picklist(["en", "zh"])),
});
export type FrontendDefaults = v.InferOutput<typeof frontendDefaults>;

/** A part of a message: its `text`, or the `file` it is stored in. */
export const partRecord = v.object({
  type: v.picklist(["text", "audio", "image", "video"]),
  text: v.nullish(v.string()),
  file: v.nullish(v.string()),
  duration_ms: v.nullish(v.number()),
  stack_frames: v.nullish(v.number()),
  unreadable: v.nullish(v.string()),
});
export type PartRecord = v.InferOutput<typeof partRecord>;

/** One message of a chat's history. Calls of tools have the form of OpenAI's API. */
export const messageRecord = v.object({
  role: v.string(),
  parts: v.array(partRecord),
  tool_calls: v.nullish(v.array(v.record(v.string(), v.unknown()))),
  tool_call_id: v.nullish(v.string()),
});
export type MessageRecord = v.InferOutput<typeof messageRecord>;

/** `interrupted`: a part of the session, or its end, could not be recorded (`Meta.missing`). */
export const recordingState = v.picklist(["recording", "complete", "interrupted"]);
export type RecordingState = v.InferOutput<typeof recordingState>;

/** State of the merged replay. `none`: there is no audio; `failed`: see `Meta.replay_error`. */
export const replayState = v.picklist(["merging", "ready", "none", "failed"]);
export type ReplayState = v.InferOutput<typeof replayState>;

/**
 * `meta.json`. `reason` is why the session ended, None if unknown.
 *
 * `chunks` counts the chunks of a duplex session, `turns` the turns of other kinds. `replay` is None
 * while the session is recorded; `merged_replay`, `merged_replay_video` and `merged_replay_opus` are
 * file names.
 * `first_words`: of the user, or of the model if there is no transcript of the user.
 * `missing` and `degraded` list what was lost, what was late, and why.
 */
export const recordingMeta = v.object({
  session_id: v.string(),
  recording_id: v.string(),
  ticket: v.number(),
  app_type: sessionKind,
  state: recordingState,
  reason: v.nullish(endReason),
  created_at: v.string(),
  ended_at: v.nullish(v.string()),
  duration_s: v.nullish(v.number()),
  worker_id: v.optional(v.string(), ""),
  chunks: v.nullish(v.number()),
  turns: v.nullish(v.number()),
  first_words: v.optional(v.string(), ""),
  config: v.record(v.string(), v.unknown()),
  missing: v.optional(v.array(gap), []),
  degraded: v.optional(v.array(diskOutage), []),
  replay: v.nullish(replayState),
  replay_error: v.nullish(v.string()),
  merged_replay: v.nullish(v.string()),
  merged_replay_video: v.nullish(v.string()),
  merged_replay_opus: v.nullish(v.string()),
});
export type RecordingMeta = v.InferOutput<typeof recordingMeta>;

/** An entry of the menu. */
export const pageInfo = v.object({
  app_id: v.string(),
  name: v.string(),
  route: v.string(),
});
export type PageInfo = v.InferOutput<typeof pageInfo>;

/** The enabled pages, in the order of the menu. */
export const pages = v.object({
  apps: v.array(pageInfo),
});
export type Pages = v.InferOutput<typeof pages>;

/** Text of a system message. `about_voice`: only for models that clone the voice after it. */
export const presetText = v.object({
  type: v.literal("text"),
  text: v.string(),
  about_voice: v.nullish(v.boolean()),
});
export type PresetText = v.InferOutput<typeof presetText>;

/** A voice in a system message. */
export const presetVoice = v.object({
  data: v.nullish(v.null()),
  path: v.string(),
  name: v.string(),
  duration: v.number(),
  type: v.literal("audio"),
});
export type PresetVoice = v.InferOutput<typeof presetVoice>;

/** A voice without its audio (`/api/presets/{mode}/{preset_id}/audio`). `duration` in seconds. */
export const voiceRef = v.object({
  data: v.nullish(v.null()),
  path: v.string(),
  name: v.string(),
  duration: v.number(),
});
export type VoiceRef = v.InferOutput<typeof voiceRef>;

/**
 * `system_prompt` and `ref_audio` for duplex pages, `system_content` for the other two. All pages of
 * spoken sessions use `greeting`.
 *
 * `check_in_s`: as in `DuplexConfig`. `lang`: the language of its user. `needs`: what else the engine must
 * do: `sight`, or understand a language.
 */
export const preset = v.object({
  id: v.string(),
  order: v.number(),
  name: v.string(),
  description: v.string(),
  lang: v.nullish(v.picklist(["en", "zh"])),
  needs: v.nullish(v.array(v.picklist(["sight", "en", "zh"]))),
  system_prompt: v.nullish(v.string()),
  greeting: v.nullish(v.string()),
  check_in_s: v.nullish(v.number()),
  system_content: v.nullish(v.array(v.variant("type", [presetText, presetVoice]))),
  ref_audio: v.nullish(voiceRef),
});
export type Preset = v.InferOutput<typeof preset>;

/** base64 of float32 mono PCM at 16 kHz. `duration` in seconds. */
export const presetSound = v.object({
  data: v.string(),
  name: v.string(),
  duration: v.number(),
});
export type PresetSound = v.InferOutput<typeof presetSound>;

/** The audio of one preset: of its system message in order, and of the voice to speak with. */
export const presetSounds = v.object({
  system_content_audio: v.nullish(v.array(presetSound)),
  ref_audio: v.nullish(presetSound),
});
export type PresetSounds = v.InferOutput<typeof presetSounds>;

/** Per page, in display order. */
export const presets = v.record(v.string(), v.array(preset));
export type Presets = v.InferOutput<typeof presets>;

/** One recording in the list. */
export const recordingInfo = v.object({
  /** anyone who has the id may read the recording */
  id: v.string(),
  session_id: v.string(),
  app_type: sessionKind,
  state: recordingState,
  reason: v.nullable(endReason),
  created_at: v.string(),
  ended_at: v.nullable(v.string()),
  duration_s: v.nullable(v.number()),
  worker_id: v.string(),
  chunks: v.nullable(v.number()),
  turns: v.nullable(v.number()),
  /** what was said first, by the user if that is transcribed */
  first_words: v.optional(v.string(), ""),
  size_bytes: v.number(),
  /** the viewer's page, on this server */
  url: v.string(),
});
export type RecordingInfo = v.InferOutput<typeof recordingInfo>;

/** A page of the list, newest first. Iterating over it yields its `sessions`. */
export const recordingPage = v.object({
  /** matching recordings on all pages */
  total: v.number(),
  offset: v.number(),
  limit: v.number(),
  /** false: a text search read only the newest recordings; narrow the dates */
  complete: v.boolean(),
  sessions: v.array(recordingInfo),
});
export type RecordingPage = v.InferOutput<typeof recordingPage>;

/** A session that runs on a worker. */
export const runningTask = v.object({
  worker_id: v.string(),
  request_type: sessionKind,
  session_id: v.string(),
  state: v.string(),
  started_at: v.string(),
  elapsed_s: v.number(),
  estimated_remaining_s: v.number(),
});
export type RunningTask = v.InferOutput<typeof runningTask>;

/** State of the whole service. */
export const serviceStatus = v.object({
  /** this edge accepts sessions */
  gateway_healthy: v.boolean(),
  total_workers: v.number(),
  idle_workers: v.number(),
  /** chat, half-duplex, or draining */
  busy_workers: v.number(),
  duplex_workers: v.number(),
  loading_workers: v.number(),
  error_workers: v.number(),
  /** registered, but without a recent heartbeat */
  offline_workers: v.number(),
  /** sessions that all workers can run at once */
  slots_total: v.number(),
  slots_used: v.number(),
  queue_length: v.number(),
  max_queue_size: v.number(),
  running_tasks: v.array(runningTask),
});
export type ServiceStatus = v.InferOutput<typeof serviceStatus>;

/** A link that gives read access to one recording to anyone who has it. */
export const shareLink = v.object({
  token: v.string(),
  /** the viewer's page, on this server */
  url: v.string(),
  /** null: valid until it is revoked */
  expires_at: v.nullable(v.string()),
});
export type ShareLink = v.InferOutput<typeof shareLink>;

/** Every link of a recording, ordered by expiry. */
export const shareLinkList = v.object({
  shares: v.array(shareLink),
});
export type ShareLinkList = v.InferOutput<typeof shareLinkList>;

/**
 * The input of a turn: one utterance, or a chat request.
 *
 * `text`: the last user message, or the engine's transcript of an utterance. `audio` is the first
 * audio, `audios` lists all if there are several. `images`, `videos`: those of the user's messages, in
 * order. `audio_duration_ms`: of all audio. `messages`: the whole history of a chat.
 */
export const turnInput = v.object({
  text: v.nullish(v.string()),
  audio: v.nullish(v.string()),
  audios: v.nullish(v.array(v.string())),
  audio_duration_ms: v.nullish(v.number()),
  speech_ms: v.nullish(v.number()),
  images: v.nullish(v.array(v.string())),
  videos: v.nullish(v.array(v.string())),
  unreadable: v.nullish(v.string()),
  messages: v.nullish(v.array(messageRecord)),
});
export type TurnInput = v.InferOutput<typeof turnInput>;

/**
 * An answer. `audio` is all audio that was sent, joined.
 *
 * `streamed_text`: the text as it was sent, if it differs from `text` because a second worker
 * had to start the answer again.
 */
export const turnOutput = v.object({
  text: v.string(),
  streamed_text: v.nullish(v.string()),
  audio: v.nullish(v.string()),
  audio_duration_ms: v.nullish(v.number()),
  unreadable: v.nullish(v.string()),
  tool_calls: v.nullish(v.array(v.record(v.string(), v.unknown()))),
});
export type TurnOutput = v.InferOutput<typeof turnOutput>;

/**
 * Durations of a turn; `elapsed_ms` is measured by the worker.
 *
 * `prefill_ms`, `first_delta_ms`: from the request until it was processed, until the first delta.
 */
export const turnTiming = v.object({
  elapsed_ms: v.nullish(v.number()),
  prefill_ms: v.nullish(v.number()),
  first_delta_ms: v.nullish(v.number()),
  tokens: v.nullish(v.number()),
  input_tokens: v.nullish(v.number()),
  kv_cache_length: v.nullish(v.number()),
});
export type TurnTiming = v.InferOutput<typeof turnTiming>;

/**
 * One request and its answer.
 *
 * `stopped`: interrupted by the client; `failed`: the engine could not answer; `unfinished`: the
 * session ended before the answer did.
 */
export const turnRecord = v.object({
  index: v.number(),
  request_ts_ms: v.number(),
  done_ts_ms: v.nullish(v.number()),
  input: turnInput,
  output: turnOutput,
  timing: turnTiming,
  stopped: v.nullish(v.boolean()),
  failed: v.nullish(v.boolean()),
  unfinished: v.nullish(v.boolean()),
  usage: v.nullish(tokenUsage),
});
export type TurnRecord = v.InferOutput<typeof turnRecord>;

/**
 * `recording.json` of a half-duplex or chat session; VAD and errors are among the events.
 *
 * `merged_replay`: a file name, once the file exists. Its first `merged_replay_lead_ms` are
 * before `start_ts`: the user of a chat has spoken before the request arrives.
 */
export const turnRecording = v.object({
  session_id: v.string(),
  recording_id: v.string(),
  mode: v.picklist(["half_duplex", "chat"]),
  app_type: sessionKind,
  worker_id: v.string(),
  start_ts: v.string(),
  config: v.record(v.string(), v.unknown()),
  turns: v.array(turnRecord),
  events: v.array(eventRecord),
  events_left_out: v.nullish(v.number()),
  missing: v.nullish(v.array(gap)),
  merged_replay: v.nullish(v.string()),
  merged_replay_lead_ms: v.nullish(v.number()),
});
export type TurnRecording = v.InferOutput<typeof turnRecording>;

/** `recording.json`: by chunk of a duplex session, by turn of the other kinds. */
export const recording = v.variant("mode", [duplexRecording, turnRecording]);
export type Recording = v.InferOutput<typeof recording>;

/** The asset that a client uploaded, if any. */
export const uploadInfo = v.object({
  path: v.nullish(v.string()),
  size_bytes: v.nullish(v.number()),
});
export type UploadInfo = v.InferOutput<typeof uploadInfo>;

/** The result of an upload or a deletion. */
export const voiceChange = v.object({
  success: v.boolean(),
  id: v.string(),
  name: v.nullish(v.string()),
  path: v.nullish(v.string()),
  message: v.string(),
});
export type VoiceChange = v.InferOutput<typeof voiceChange>;

/** A reference voice. `path` is the value for `ref_audio_path`. */
export const voiceInfo = v.object({
  id: v.string(),
  name: v.string(),
  filename: v.string(),
  source_type: v.picklist(["shipped", "upload"]),
  duration_ms: v.number(),
  sample_rate: v.number(),
  created_at: v.string(),
  path: v.string(),
});
export type VoiceInfo = v.InferOutput<typeof voiceInfo>;

/** Bundled voices first, then the uploaded ones, oldest first. */
export const voiceList = v.object({
  total: v.number(),
  ref_audios: v.array(voiceInfo),
});
export type VoiceList = v.InferOutput<typeof voiceList>;

/** The audio of a voice: base64 of float32 mono PCM. `duration` in seconds. */
export const voiceSound = v.object({
  name: v.string(),
  duration: v.number(),
  sample_rate: v.number(),
  samples: v.number(),
  base64: v.string(),
});
export type VoiceSound = v.InferOutput<typeof voiceSound>;

/**
 * The loudest sample of each 1/`per_second` s of the merged replay, from 0 to 255 (full scale).
 *
 * The lists are equally long, and begin with the first sample of the replay.
 */
export const waveformPeaks = v.object({
  per_second: v.optional(v.number(), 25),
  user: v.optional(v.array(v.number()), []),
  model: v.optional(v.array(v.number()), []),
});
export type WaveformPeaks = v.InferOutput<typeof waveformPeaks>;
