import type {
  DuplexRecording,
  RecordedChunk,
  RecordedUnit,
  RecordingEvent,
} from "../api/recordings.ts";
import { type PlayedAudio, playbackTimes } from "./sound-runs.ts";
import {
  type CameraFrame,
  joined,
  type SpokenLine,
  type Timeline,
  type TimelineEvent,
  type UnitCost,
} from "./timeline.ts";

/** Estimated time to say a letter. Wide characters such as Chinese count three times. */
export const LETTER_MS = 70;
/** Silence by which an engine detects the end of speech. */
const PAUSE_MS = 1000;
const WIDE = /[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]/g;
const MARKS: Readonly<Record<string, TimelineEvent["type"]>> = {
  paused: "paused",
  resumed: "resumed",
  error: "error",
};

/** The timeline of a full-duplex session. */
export function duplexTimeline({
  chunks,
  events,
  orphan_results: orphans = [],
}: DuplexRecording): Timeline {
  const results = chunks.flatMap(({ result, repeated_results: more = [] }) =>
    result ? [result, ...more] : [],
  );
  const units = [...results, ...orphans];
  units.sort((a, b) => a.publish_ts_ms - b.publish_ts_ms);
  const spoken = units.filter((unit) => unit.ai_audio_duration_ms !== undefined);
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
    costs: units.map(cost),
  };
}

/** Times at which the client dropped audio: a forced listen, or an interrupted turn. */
function flushes(chunks: readonly RecordedChunk[], units: readonly RecordedUnit[]): number[] {
  const times = forced(chunks);
  let midTurn = false;
  for (const unit of units) {
    if (unit.mode === "LISTEN" && midTurn) times.push(unit.publish_ts_ms);
    midTurn = unit.mode === "SPEAK" && !unit.end_of_turn;
  }
  return times.sort((a, b) => a - b);
}

/** Times of forced listens. */
function forced(chunks: readonly RecordedChunk[]): number[] {
  return chunks
    .filter((chunk, i) => chunk.force_listen && !chunks[i - 1]?.force_listen)
    .map((chunk) => chunk.receive_ts_ms);
}

/** Consecutive units form one answer. Audio that was dropped before playback is excluded. */
function modelLines(
  units: readonly RecordedUnit[],
  places: ReadonlyMap<RecordedUnit, PlayedAudio | null>,
): SpokenLine[] {
  const lines: SpokenLine[] = [];
  let open = false;
  for (const unit of units) {
    const line = modelLine(unit, places);
    const last = lines.at(-1);
    if (line && open && last) {
      lines[lines.length - 1] = {
        ...last,
        text: last.text + line.text,
        untilMs: line.untilMs,
      };
    } else if (line) lines.push(line);
    open = unit.mode === "SPEAK" && !unit.end_of_turn;
  }
  return lines
    .map((line) => ({ ...line, text: line.text.trim() }))
    .filter(({ text }) => text !== "");
}

function modelLine(
  unit: RecordedUnit,
  places: ReadonlyMap<RecordedUnit, PlayedAudio | null>,
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

function userLines(units: readonly RecordedUnit[]): SpokenLine[] {
  const lines: SpokenLine[] = [];
  for (const { publish_ts_ms: untilMs, user_text } of units) {
    const text = user_text?.trim() ?? "";
    if (text !== "") lines.push(estimatedUserLine(text, untilMs, lines.at(-1)?.untilMs ?? 0));
  }
  return lines;
}

function segments(units: readonly RecordedUnit[], lengthMs: number) {
  return joined(
    units.map((unit, i) => ({
      mode: unit.mode === "SPEAK" ? "speak" : "listen",
      fromMs: unit.publish_ts_ms,
      untilMs: units[i + 1]?.publish_ts_ms ?? Math.max(lengthMs, unit.publish_ts_ms),
    })),
  );
}

/** Spreads the frames of a chunk over its duration. */
function frames(chunks: readonly RecordedChunk[]): CameraFrame[] {
  return chunks.flatMap((chunk) => {
    const lasts = chunk.user_audio_duration_ms ?? 0;
    const files = chunk.user_frames ?? (chunk.user_frame ? [chunk.user_frame] : []);
    const from = Math.max(0, chunk.receive_ts_ms - lasts);
    return files.map((file, i) => ({ file, atMs: from + (lasts * i) / files.length }));
  });
}

function timelineEvents(
  chunks: readonly RecordedChunk[],
  events: readonly RecordingEvent[],
): TimelineEvent[] {
  const found: TimelineEvent[] = forced(chunks).map((atMs) => ({ atMs, type: "forced" }));
  for (const { ts_ms: atMs, type } of events) {
    const event = MARKS[type];
    if (event) found.push({ atMs, type: event });
  }
  return found.sort((a, b) => a.atMs - b.atMs);
}

function cost({ publish_ts_ms, timing }: RecordedUnit): UnitCost {
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
