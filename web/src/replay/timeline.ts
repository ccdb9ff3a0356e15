import type {
  ChunkRecord,
  DuplexRecording,
  EventRecord,
  PartRecord,
  Recording,
  TurnRecord,
  TurnRecording,
  UnitRecord,
} from "../api/answers.ts";
import { type PlayedAudio, playbackTimes } from "./playback-times.ts";

export type SpeakerRole = "system" | "user" | "model";

/** Why a line is incomplete. */
export type LineStatus = "stopped" | "failed" | "unfinished";

/** A message of one side. All times are milliseconds of the merged recording. */
export interface SpokenLine {
  readonly role: SpeakerRole;
  readonly atMs: number;
  readonly untilMs: number;
  readonly text: string;
  /** The times are estimated from the length of the text. */
  readonly estimated?: true;
  readonly status?: LineStatus;
  /** The user interrupted the answer, or the call ended in it. */
  readonly cut?: true;
  /** Files and texts of a chat message, in order. */
  readonly parts?: readonly PartRecord[];
  /** From the request to the first part of the answer. */
  readonly firstMs?: number;
}

/** Who speaks. */
export interface SpeakerSegment {
  readonly mode: "listen" | "speak";
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface CameraFrame {
  readonly atMs: number;
  readonly file: string;
}

export type TimelineEventType = "paused" | "resumed" | "forced" | "break" | "error";

export interface TimelineEvent {
  readonly atMs: number;
  readonly type: TimelineEventType;
}

/** Compute time of a unit or a turn, ms. */
export interface UnitCost {
  readonly atMs: number;
  readonly read: number;
  readonly think: number;
  readonly speak: number;
  readonly total: number;
  /** Until a worker received it. */
  readonly waited: number | null;
  /** Tokens in the context. */
  readonly context: number | null;
}

/** A recording as the viewer shows it. */
export interface Timeline {
  readonly lengthMs: number;
  readonly lines: readonly SpokenLine[];
  readonly segments: readonly SpeakerSegment[];
  readonly frames: readonly CameraFrame[];
  readonly events: readonly TimelineEvent[];
  readonly costs: readonly UnitCost[];
}

export function timelineOf(recording: Recording): Timeline {
  return recording.mode === "duplex" ? duplexTimeline(recording) : turnTimeline(recording);
}

/** Returns the last item that has started, or null. */
export function latest<T extends { readonly atMs: number }>(
  ordered: readonly T[],
  atMs: number,
): T | null {
  return ordered.findLast((one) => one.atMs <= atMs) ?? null;
}

/** Merges adjacent segments of the same mode. */
function joined(segments: readonly SpeakerSegment[]): SpeakerSegment[] {
  const found: SpeakerSegment[] = [];
  for (const segment of segments) {
    const last = found.at(-1);
    if (last?.mode === segment.mode && segment.fromMs <= last.untilMs) {
      found[found.length - 1] = { ...last, untilMs: Math.max(last.untilMs, segment.untilMs) };
    } else found.push(segment);
  }
  return found;
}

/** Lines and events in order of time. */
export function timelineItems({ lines, events }: Timeline): (SpokenLine | TimelineEvent)[] {
  return [...lines, ...events].sort((a, b) => a.atMs - b.atMs);
}

/**
 * Returns the start of the previous or next turn. A turn that has just started is the current one.
 */
export function adjacentTurn({ lines }: Timeline, atMs: number, by: -1 | 1): number | null {
  const places = lines
    .filter((line) => line.role !== "system" && line.untilMs > line.atMs)
    .map((line) => line.atMs);
  const found =
    by > 0
      ? places.find((place) => place > atMs + 20)
      : places.findLast((place) => place < atMs - 1000);
  return found ?? (by < 0 ? 0 : null);
}

const TURN_MARKS: Readonly<Record<string, TimelineEvent["type"]>> = {
  break: "break",
  error: "error",
};

/** The timeline of a half-duplex or chat session. */
export function turnTimeline(recording: TurnRecording): Timeline {
  const leadMs = recording.merged_replay_lead_ms ?? 0;
  const isChat = recording.mode === "chat";
  const answers = recording.turns.map((turn) => answer(turn, leadMs));
  const lines = recording.turns.flatMap((turn, i) => [
    ...(isChat ? written(turn, leadMs) : utterance(turn)),
    ...(answers[i] ? [answers[i]] : []),
  ]);
  const speaks: SpeakerSegment[] = answers.map(({ atMs, untilMs }) => ({
    mode: "speak",
    fromMs: atMs,
    untilMs,
  }));
  return {
    lengthMs: Math.max(0, ...lines.map((line) => line.untilMs)),
    lines,
    segments: [...listens(recording, leadMs), ...speaks].sort((a, b) => a.fromMs - b.fromMs),
    frames: [],
    events: events(recording.events, leadMs),
    costs: recording.turns.map((turn) => turnCost(turn, leadMs)),
  };
}

/** Nothing before a greeting. */
function utterance({ input, request_ts_ms: untilMs }: TurnRecord): SpokenLine[] {
  const lastsMs = input.audio_duration_ms ?? 0;
  const text = input.text ?? "";
  if (lastsMs === 0 && text === "") return [];
  return [{ role: "user", text, atMs: Math.max(0, untilMs - lastsMs), untilMs }];
}

/** All messages of a chat. Only the answered message has a position on the timeline. */
function written(turn: TurnRecord, leadMs: number): SpokenLine[] {
  const messages = turn.input.messages ?? [];
  return messages.map(({ role, parts }, i) => ({
    role: roleOf(role),
    atMs: 0,
    untilMs: i === messages.length - 1 ? leadMs : 0,
    text: parts
      .map(({ text }) => text ?? "")
      .filter((text) => text !== "")
      .join("\n"),
    parts,
  }));
}

function roleOf(role: string): SpeakerRole {
  if (role === "system") return "system";
  return role === "assistant" ? "model" : "user";
}

function answer(turn: TurnRecord, leadMs: number): SpokenLine {
  const { output, timing } = turn;
  const atMs = turn.request_ts_ms + leadMs + (timing.first_delta_ms ?? 0);
  const status = flawOf(turn);
  return {
    role: "model",
    text: output.text.trim(),
    atMs,
    untilMs: Math.max(atMs + (output.audio_duration_ms ?? 0), atMs),
    ...(status ? { status } : {}),
    ...(timing.first_delta_ms == null ? {} : { firstMs: timing.first_delta_ms }),
    ...(output.audio ? { parts: [{ type: "audio", file: output.audio }] as const } : {}),
  };
}

function flawOf(turn: TurnRecord): LineStatus | null {
  if (turn.failed) return "failed";
  if (turn.stopped) return "stopped";
  return turn.unfinished ? "unfinished" : null;
}

/** Half-duplex: while the user spoke. Chat: what the user sent. */
function listens(recording: TurnRecording, leadMs: number): SpeakerSegment[] {
  if (leadMs > 0) return [{ mode: "listen", fromMs: 0, untilMs: leadMs }];
  const turns = recording.events.filter(({ type }) => type === "vad");
  return turns.flatMap(({ ts_ms: fromMs, speaking }, i): SpeakerSegment[] => {
    const untilMs = turns[i + 1]?.ts_ms;
    return speaking && untilMs !== undefined ? [{ mode: "listen", fromMs, untilMs }] : [];
  });
}

function events(events: readonly EventRecord[], leadMs: number): TimelineEvent[] {
  return events.flatMap(({ ts_ms, type }) => {
    const event = TURN_MARKS[type];
    return event ? [{ atMs: ts_ms + leadMs, type: event }] : [];
  });
}

function turnCost({ request_ts_ms, timing }: TurnRecord, leadMs: number): UnitCost {
  const total = timing.elapsed_ms ?? 0;
  return {
    atMs: request_ts_ms + leadMs,
    read: 0,
    think: 0,
    speak: 0,
    total,
    waited: null,
    context: timing.kv_cache_length ?? null,
  };
}

/** Estimated time to say a letter. Wide characters such as Chinese count three times. */
export const LETTER_MS = 70;
/** Silence by which an engine detects the end of speech. */
const PAUSE_MS = 1000;
const WIDE = /[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]/g;
const UNIT_MARKS: Readonly<Record<string, TimelineEvent["type"]>> = {
  paused: "paused",
  resumed: "resumed",
  error: "error",
};

/** The timeline of a full-duplex session. */
export function duplexTimeline({
  chunks,
  events,
  orphan_results: orphans,
}: DuplexRecording): Timeline {
  const results = chunks.flatMap(({ result, repeated_results: more }) =>
    result ? [result, ...(more ?? [])] : [],
  );
  const units = [...results, ...(orphans ?? [])];
  units.sort((a, b) => a.publish_ts_ms - b.publish_ts_ms);
  const spoken = units.filter((unit) => unit.ai_audio_duration_ms != null);
  const played = playbackTimes(
    spoken.map((unit) => ({ atMs: unit.publish_ts_ms, lastsMs: unit.ai_audio_duration_ms ?? 0 })),
    flushes(chunks, units),
  );
  const places = new Map(spoken.map((unit, i) => [unit, played[i] ?? null]));
  const lengthMs = Math.max(
    0,
    ...chunks.map((chunk) => chunk.receive_ts_ms),
    ...played.map((one) => one?.untilMs ?? 0),
  );
  const lines = [...modelLines(units, places), ...userLines(units)];
  return {
    lengthMs,
    lines: lines.sort((a, b) => a.atMs - b.atMs),
    segments: segments(units, lengthMs),
    frames: frames(chunks),
    events: timelineEvents(chunks, events),
    costs: units.map(unitCost),
  };
}

/** Times at which the client dropped audio: a forced listen, or an interrupted turn. */
function flushes(chunks: readonly ChunkRecord[], units: readonly UnitRecord[]): number[] {
  const times = forced(chunks);
  let midTurn = false;
  for (const unit of units) {
    if (unit.mode === "LISTEN" && midTurn) times.push(unit.publish_ts_ms);
    midTurn = unit.mode === "SPEAK" && !unit.end_of_turn;
  }
  return times.sort((a, b) => a - b);
}

/** Times of forced listens. */
function forced(chunks: readonly ChunkRecord[]): number[] {
  return chunks
    .filter((chunk, i) => chunk.force_listen && !chunks[i - 1]?.force_listen)
    .map((chunk) => chunk.receive_ts_ms);
}

/**
 * Consecutive units form one answer. Audio that was dropped before playback is excluded. An answer
 * without an end of its turn is cut.
 */
function modelLines(
  units: readonly UnitRecord[],
  places: ReadonlyMap<UnitRecord, PlayedAudio | null>,
): SpokenLine[] {
  const lines: SpokenLine[] = [];
  let turn: SpokenLine[] = []; // the units of the answer whose turn has not ended
  const end = (cut: { cut?: true } = {}): void => {
    const [first, last] = [turn[0], turn.at(-1)];
    const text = turn.map((line) => line.text).join("");
    if (first && last) lines.push({ ...first, text, untilMs: last.untilMs, ...cut });
    turn = [];
  };
  for (const unit of units) {
    const line = modelLine(unit, places);
    if (unit.mode === "LISTEN") end({ cut: true });
    if (line) turn.push(line);
    if (unit.end_of_turn) end();
  }
  end({ cut: true });
  return lines
    .map((line) => ({ ...line, text: line.text.trim() }))
    .filter(({ text }) => text !== "");
}

function modelLine(
  unit: UnitRecord,
  places: ReadonlyMap<UnitRecord, PlayedAudio | null>,
): SpokenLine | null {
  if (unit.mode !== "SPEAK") return null;
  const at = unit.publish_ts_ms;
  const place = places.has(unit) ? (places.get(unit) ?? null) : { fromMs: at, untilMs: at };
  if (place === null) return null;
  return { role: "model", text: unit.text ?? "", atMs: place.fromMs, untilMs: place.untilMs };
}

/** A transcript arrives after speech. Its start is estimated from its length. */
export function estimatedUserLine(text: string, untilMs: number, earliestMs: number): SpokenLine {
  const width = text.length + 2 * (text.match(WIDE)?.length ?? 0);
  const atMs = Math.max(earliestMs, untilMs - LETTER_MS * width - PAUSE_MS);
  return { role: "user", text, atMs, untilMs, estimated: true };
}

function userLines(units: readonly UnitRecord[]): SpokenLine[] {
  const lines: SpokenLine[] = [];
  for (const { publish_ts_ms: untilMs, user_text } of units) {
    const text = user_text?.trim() ?? "";
    if (text !== "") lines.push(estimatedUserLine(text, untilMs, lines.at(-1)?.untilMs ?? 0));
  }
  return lines;
}

function segments(units: readonly UnitRecord[], lengthMs: number) {
  return joined(
    units.map((unit, i) => ({
      mode: unit.mode === "SPEAK" ? "speak" : "listen",
      fromMs: unit.publish_ts_ms,
      untilMs: units[i + 1]?.publish_ts_ms ?? Math.max(lengthMs, unit.publish_ts_ms),
    })),
  );
}

/** Spreads the frames of a chunk over its duration. */
function frames(chunks: readonly ChunkRecord[]): CameraFrame[] {
  return chunks.flatMap((chunk) => {
    const lasts = chunk.user_audio_duration_ms ?? 0;
    const files = chunk.user_frames ?? (chunk.user_frame ? [chunk.user_frame] : []);
    const from = Math.max(0, chunk.receive_ts_ms - lasts);
    return files.map((file, i) => ({ file, atMs: from + (lasts * i) / files.length }));
  });
}

function timelineEvents(
  chunks: readonly ChunkRecord[],
  events: readonly EventRecord[],
): TimelineEvent[] {
  const found: TimelineEvent[] = forced(chunks).map((atMs) => ({ atMs, type: "forced" }));
  for (const { ts_ms: atMs, type } of events) {
    const event = UNIT_MARKS[type];
    if (event) found.push({ atMs, type: event });
  }
  return found.sort((a, b) => a.atMs - b.atMs);
}

function unitCost({ publish_ts_ms, timing }: UnitRecord): UnitCost {
  return {
    atMs: publish_ts_ms,
    read: timing.prefill_ms,
    think: timing.llm_ms,
    speak: timing.tts_prep_ms + timing.tts_ms + timing.token2wav_ms,
    total: timing.wall_clock_ms,
    waited: timing.edge_to_worker_ms,
    context: timing.kv_cache_length,
  };
}
