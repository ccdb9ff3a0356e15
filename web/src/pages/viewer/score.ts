import type { MessagePart, Recording } from "../../api/recordings.ts";
import { scoreOfUnits } from "./duplex-score.ts";
import { scoreOfTurns } from "./turn-score.ts";

export type Role = "system" | "user" | "model";

/** Why a line is not what it might have been. */
export type Flaw = "stopped" | "failed" | "unfinished";

/** What one side said. Times are milliseconds on the merged replay's clock, as everywhere here. */
export interface Line {
  readonly role: Role;
  readonly atMs: number;
  readonly untilMs: number;
  readonly text: string;
  readonly flaw?: Flaw;
  /** Files and texts of a written message, in order. */
  readonly parts?: readonly MessagePart[];
  /** From the request to the first piece of the answer. */
  readonly firstMs?: number;
}

/** Who had the floor. */
export interface Band {
  readonly mode: "listen" | "speak";
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface Picture {
  readonly atMs: number;
  readonly file: string;
}

export type MarkType = "paused" | "resumed" | "forced" | "break" | "error";

export interface Mark {
  readonly atMs: number;
  readonly type: MarkType;
}

/** What the model computed for one unit, or for one turn; in milliseconds. */
export interface Cost {
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
export interface Score {
  readonly lengthMs: number;
  readonly lines: readonly Line[];
  readonly bands: readonly Band[];
  readonly pictures: readonly Picture[];
  readonly marks: readonly Mark[];
  readonly costs: readonly Cost[];
}

export function scoreOf(recording: Recording): Score {
  return recording.mode === "duplex" ? scoreOfUnits(recording) : scoreOfTurns(recording);
}

/** The last one that has begun; null before the first. */
export function latest<T extends { readonly atMs: number }>(
  ordered: readonly T[],
  atMs: number,
): T | null {
  return ordered.findLast((one) => one.atMs <= atMs) ?? null;
}

/** Neighbours of one mode are one band. */
export function joined(bands: readonly Band[]): Band[] {
  const found: Band[] = [];
  for (const band of bands) {
    const last = found.at(-1);
    if (last?.mode === band.mode && band.fromMs <= last.untilMs) {
      found[found.length - 1] = { ...last, untilMs: Math.max(last.untilMs, band.untilMs) };
    } else found.push(band);
  }
  return found;
}

/** Lines and marks in the order of time. */
export function moments({ lines, marks }: Score): (Line | Mark)[] {
  return [...lines, ...marks].sort((a, b) => a.atMs - b.atMs);
}

/** The place of the turn before or after; what begins just now counts as here. */
export function turnBeside({ lines }: Score, atMs: number, by: -1 | 1): number | null {
  const places = lines
    .filter((line) => line.role !== "system" && line.untilMs > line.atMs)
    .map((line) => line.atMs);
  const found =
    by > 0
      ? places.find((place) => place > atMs + 20)
      : places.findLast((place) => place < atMs - 1000);
  return found ?? (by < 0 ? 0 : null);
}
