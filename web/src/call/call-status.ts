import type { OrbMode } from "../components/voice-orb.ts";
import type { DuplexSessionState } from "../session/duplex-session.ts";
import { finalLines } from "../session/transcript.ts";
import { capabilities, exampleQuestion } from "../shell/capabilities.ts";
import { callStrings } from "./strings.ts";

export type InputProblem =
  /** The microphone has delivered nothing audible. */
  | "silent"
  /** The microphone picks up the model. */
  | "echo";

const PER_S = 10;
const SILENT = 10 * PER_S;
const WINDOW = 20 * PER_S;
const LEAST_MODEL = 1.5 * PER_S;
const MOST_LAG = 4;
const FLOOR_DB = -60;
const AUDIBLE_DB = -45;
const ALIKE = 0.75;

/**
 * Checks the microphone during a call by the peaks of both sides, dBFS, ten times per second. With an
 * echo, the level of the microphone follows the level of the model. Two people who take turns
 * have opposite levels. Pure.
 */
export class InputCheck {
  readonly #user: number[] = [];
  readonly #model: number[] = [];
  #hasSound = false;
  #quiet = 0;
  #count = 0;
  #echo = false;
  /** Whether the device says that it delivers nothing. */
  deviceSilent = false;

  push(userDb: number, modelDb: number): InputProblem | null {
    if (userDb > FLOOR_DB) this.#hasSound = true;
    if (modelDb < AUDIBLE_DB) this.#quiet += 1; // the user may listen to the model
    keep(this.#user, Math.max(FLOOR_DB, userDb));
    keep(this.#model, Math.max(FLOOR_DB, modelDb));
    this.#count += 1;
    if (this.#count % PER_S === 0) this.#echo = hasEcho(this.#user, this.#model);
    if (this.deviceSilent) return "silent";
    if (this.#echo) return "echo";
    return !this.#hasSound && this.#quiet >= SILENT ? "silent" : null;
  }
}

function keep(levels: number[], level: number): void {
  levels.push(level);
  if (levels.length > WINDOW) levels.shift();
}

function hasEcho(user: readonly number[], model: readonly number[]): boolean {
  if (model.filter((db) => db > AUDIBLE_DB).length < LEAST_MODEL) return false;
  for (let lag = 0; lag <= MOST_LAG; lag += 1) {
    if (correlation(user.slice(lag), model.slice(0, model.length - lag)) > ALIKE) return true;
  }
  return false;
}

/** -1 to 1. Zero if one of them is constant. */
function correlation(one: readonly number[], other: readonly number[]): number {
  const [meanOne, meanOther] = [mean(one), mean(other)];
  let [product, squareOne, squareOther] = [0, 0, 0];
  for (const [index, value] of one.entries()) {
    const [a, b] = [value - meanOne, (other[index] ?? 0) - meanOther];
    product += a * b;
    squareOne += a * a;
    squareOther += b * b;
  }
  return squareOne * squareOther === 0 ? 0 : product / Math.sqrt(squareOne * squareOther);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Status of a call as shown on the page. */
interface CallStatus {
  readonly mode: OrbMode;
  readonly title: string;
  readonly hint: string;
}

interface AnnouncedCall {
  readonly sessionState: DuplexSessionState;
  /** Start of the active call. Null if it did not begin. */
  readonly since: number | null;
}

const PENDING_MS = 5000; // the model may also decide not to answer
const UNDERSTOOD_MS = 15_000;

/** When the user said what the model has not answered yet, `performance.now()`. Null if nothing. */
export function pendingSince(
  before: DuplexSessionState,
  now: DuplexSessionState,
  since: number | null,
  at: number,
): number | null {
  if (now.phase !== "active" || now.modelSpeaks || now.userSpeaks) return null;
  const said = finalLines(now.transcript).at(-1);
  const isNew = said?.role === "user" && said.id !== finalLines(before.transcript).at(-1)?.id;
  return before.userSpeaks || isNew ? at : since;
}

export function callStatus(
  sessionState: DuplexSessionState,
  pending: number | null = null,
  { camera = false } = {},
): CallStatus {
  const t = callStrings().state;
  if (sessionState.queue !== null) return { mode: "idle", title: t.queued, hint: "" };
  switch (sessionState.phase) {
    case "idle":
      return { mode: "idle", title: t.idle, hint: "" };
    case "opening":
      return { mode: "connecting", title: t.opening, hint: t.openingHint };
    case "connecting":
      return { mode: "connecting", title: t.connecting, hint: "" };
    case "queued":
      return { mode: "idle", title: t.queued, hint: "" };
    case "preparing":
      return { mode: "connecting", title: t.preparing, hint: "" };
    case "active":
      return isLost(sessionState)
        ? { mode: "connecting", title: t.reconnecting, hint: t.reconnectingHint }
        : talking(sessionState, pending, camera);
    case "paused":
      return { mode: "paused", title: t.paused, hint: t.pausedHint };
    case "stopping":
      return { mode: "ended", title: t.stopping, hint: "" };
    case "ended":
      return { mode: "ended", title: t.ended, hint: "" };
  }
}

function isLost({ connection }: DuplexSessionState): boolean {
  return connection.state === "reconnecting";
}

/**
 * Text for screen readers. It does not announce every turn, which would interrupt the model's
 * speech. An alert says why a call did not begin.
 */
export function statusAnnouncement({ sessionState, since }: AnnouncedCall): string {
  const t = callStrings().state;
  if (sessionState.queue !== null) return ""; // the queue panel announces it
  const { phase, muted } = sessionState;
  if (phase === "active" && !isLost(sessionState)) return muted ? t.muted : t.connected;
  if (phase === "idle" || (phase === "ended" && since === null)) return "";
  return callStatus(sessionState).title;
}

/** What the user said, for screen readers, as soon as it is final. Empty after the call. */
export function understood({ phase, transcript }: DuplexSessionState): string {
  const said = finalLines(transcript).findLast(({ role }) => role === "user");
  return phase === "active" && said ? `${callStrings().you}: ${said.text.trim()}` : "";
}

function talking(
  { modelSpeaks, userSpeaks, muted, transcript }: DuplexSessionState,
  pending: number | null,
  camera: boolean,
): CallStatus {
  const t = callStrings().state;
  if (modelSpeaks) {
    return { mode: "speaking", title: t.speaking, hint: muted ? t.muted : t.speakingHint };
  }
  if (pending !== null) {
    const understood = finalLines(transcript).at(-1)?.role === "user";
    const passed = performance.now() - pending;
    if (passed < (understood ? UNDERSTOOD_MS : PENDING_MS)) {
      return { mode: "thinking", title: t.thinking, hint: understood ? t.understood : "" };
    }
  }
  if (muted) return { mode: "listening", title: t.muted, hint: t.mutedHint };
  if (userSpeaks) return { mode: "hearing", title: t.hearing, hint: "" };
  const example = exampleQuestion(capabilities.value, { camera });
  const hint = isNew(transcript) ? t.listeningHint(example) : "";
  return { mode: "listening", title: t.listening, hint };
}

/** Nothing was said yet, except for a greeting. */
function isNew(transcript: DuplexSessionState["transcript"]): boolean {
  return transcript.length <= 1 && transcript[0]?.role !== "user";
}
