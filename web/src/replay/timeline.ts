import type { RecordedPart, Recording } from "../api/recordings.ts";
import { duplexTimeline } from "./duplex-timeline.ts";
import { turnTimeline } from "./turn-timeline.ts";

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
  /** Files and texts of a chat message, in order. */
  readonly parts?: readonly RecordedPart[];
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
export function joined(segments: readonly SpeakerSegment[]): SpeakerSegment[] {
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
