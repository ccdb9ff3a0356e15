import type { RecordedTurn, RecordingEvent, TurnRecording } from "../api/recordings.ts";
import type {
  LineStatus,
  SpeakerRole,
  SpeakerSegment,
  SpokenLine,
  Timeline,
  TimelineEvent,
  UnitCost,
} from "./timeline.ts";

const MARKS: Readonly<Record<string, TimelineEvent["type"]>> = { break: "break", error: "error" };

/** The timeline of a half-duplex or chat session. */
export function turnTimeline(recording: TurnRecording): Timeline {
  const leadMs = recording.merged_replay_lead_ms ?? 0;
  const isChat = recording.mode === "chat";
  const answers = recording.turns.map((turn) => answer(turn, leadMs));
  const lines = recording.turns.flatMap((turn, i) => [
    ...(isChat ? written(turn, leadMs) : [utterance(turn)]),
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
    costs: recording.turns.map((turn) => cost(turn, leadMs)),
  };
}

function utterance(turn: RecordedTurn): SpokenLine {
  const atMs = Math.max(0, turn.request_ts_ms - (turn.input.audio_duration_ms ?? 0));
  return {
    role: "user",
    text: turn.input.text ?? "",
    atMs,
    untilMs: turn.request_ts_ms,
  };
}

/** All messages of a chat. Only the answered message has a position on the timeline. */
function written(turn: RecordedTurn, leadMs: number): SpokenLine[] {
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

function answer(turn: RecordedTurn, leadMs: number): SpokenLine {
  const { output, timing } = turn;
  const atMs = turn.request_ts_ms + leadMs + (timing.first_delta_ms ?? 0);
  const status = flawOf(turn);
  return {
    role: "model",
    text: output.text.trim(),
    atMs,
    untilMs: Math.max(atMs + (output.audio_duration_ms ?? 0), atMs),
    ...(status ? { status } : {}),
    ...(timing.first_delta_ms === undefined ? {} : { firstMs: timing.first_delta_ms }),
    ...(output.audio ? { parts: [{ type: "audio", file: output.audio }] as const } : {}),
  };
}

function flawOf(turn: RecordedTurn): LineStatus | null {
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

function events(events: readonly RecordingEvent[], leadMs: number): TimelineEvent[] {
  return events.flatMap(({ ts_ms, type }) => {
    const event = MARKS[type];
    return event ? [{ atMs: ts_ms + leadMs, type: event }] : [];
  });
}

function cost({ request_ts_ms, timing }: RecordedTurn, leadMs: number): UnitCost {
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
