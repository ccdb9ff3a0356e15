import type { RecordedPart, Recording } from "../../api/recordings.ts";
import { duplexTimeline } from "./duplex-timeline.ts";
import { turnTimeline } from "./turn-timeline.ts";

export type SpeakerRole = "system" | "user" | "model";

/** Why a line is not what it might have been. */
export type LineStatus = "stopped" | "failed" | "unfinished";

/** What one side said. Times are milliseconds on the merged replay's clock, as everywhere here. */
export interface SpokenLine {
  readonly role: SpeakerRole;
  readonly atMs: number;
  readonly untilMs: number;
  readonly text: string;
  readonly status?: LineStatus;
  /** Files and texts of a written message, in order. */
  readonly parts?: readonly RecordedPart[];
  /** From the request to the first piece of the answer. */
  readonly firstMs?: number;
}

/** Who had the floor. */
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

/** What the model computed for one unit, or for one turn; in milliseconds. */
export interface UnitCost {
  readonly atMs: number;
  readonly read: number;
  readonly think: number;
  readonly speak: number;
  readonly total: number;
  /** Until a worker took it up. */
  readonly waited: number | null;
  /** Tokens in the model's memory. */
  readonly context: number | null;
}

/** A recording as one sees and hears it. */
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

/** The last one that has begun; null before the first. */
export function latest<T extends { readonly atMs: number }>(
  ordered: readonly T[],
  atMs: number,
): T | null {
  return ordered.findLast((one) => one.atMs <= atMs) ?? null;
}

/** Neighbours of one mode are one band. */
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

/** Lines and marks in the order of time. */
export function timelineItems({ lines, events }: Timeline): (SpokenLine | TimelineEvent)[] {
  return [...lines, ...events].sort((a, b) => a.atMs - b.atMs);
}

/** The place of the turn before or after; what begins just now counts as here. */
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
