import type { AudioEngine } from "../audio/audio-engine.ts";
import { INPUT_RATE, type Samples } from "../audio/pcm.ts";
import type { Result } from "../protocol/server-messages.ts";

export interface TranscriptLine {
  readonly id: number;
  readonly role: "user" | "model";
  readonly text: string;
  /** `performance.now()` of its first word. */
  readonly at: number;
  /** The line is complete. */
  readonly done: boolean;
  /** The model was interrupted, and part of the text was not played. */
  readonly cut: boolean;
}

/** The transcript as lines. Every change creates a new array. */
export class Transcript {
  #lines: readonly TranscriptLine[] = [];
  #nextId = 0;

  get lines(): readonly TranscriptLine[] {
    return this.#lines;
  }

  /** Appends to the open line of the role, or starts one. */
  say(role: TranscriptLine["role"], text: string): void {
    if (text === "") return;
    const open = this.#open(role);
    if (open) this.#change({ ...open, text: open.text + text });
    else this.#begin(role, text);
  }

  /** Adds a complete line. */
  add(role: TranscriptLine["role"], text: string): void {
    this.say(role, text);
    this.end(role);
  }

  /** Completes the open line of the role. */
  end(role: TranscriptLine["role"], { cut = false } = {}): void {
    const open = this.#open(role);
    if (open) this.#change({ ...open, done: true, cut });
  }

  #open(role: TranscriptLine["role"]): TranscriptLine | undefined {
    return this.#lines.find((line) => line.role === role && !line.done);
  }

  #begin(role: TranscriptLine["role"], text: string): void {
    const line = { id: this.#nextId++, role, text, at: performance.now(), done: false, cut: false };
    this.#lines = [...this.#lines, line];
  }

  #change(line: TranscriptLine): void {
    this.#lines = this.#lines.map((other) => (other.id === line.id ? line : other));
  }
}

export interface ModelSpeechOptions {
  /** Whether a turn that begins while the user speaks waits until the user stops. */
  waits: boolean;
  /** Playback starts or stops. */
  onChange: (speaks: boolean) => void;
  /** The transcript has changed because a turn that waited begins. */
  onLines: () => void;
}

/** The model's speech: playback, transcript and interruption. */
export class ModelSpeech {
  readonly #audio: AudioEngine;
  readonly #options: ModelSpeechOptions;
  readonly #gate = new SpeechGate();
  readonly #held = new HeldTurn<Result>();
  readonly #transcript = new Transcript();
  readonly #responses = new ResponseTimes();
  readonly #interruptions: (number | null)[] = [];
  #stopMs: number | null = null;

  constructor(audio: AudioEngine, options: ModelSpeechOptions) {
    this.#audio = audio;
    this.#options = options;
    audio.player.on("start", ({ atMs }) => {
      this.#responses.add(audio.userLastSpokeAt, atMs);
      options.onChange(true);
    });
    audio.player.on("idle", () => options.onChange(false));
    audio.player.on("flush", () => options.onChange(false));
    audio.player.on("pause", () => options.onChange(false));
    audio.player.on("resume", () => options.onChange(true));
    audio.player.on("gap", () => options.onChange(true)); // a late unit: "idle" came before
    audio.on("userBlock", (block) => this.#captured(block));
  }

  get lines(): readonly TranscriptLine[] {
    return this.#transcript.lines;
  }

  /** Whether the model is heard, will be when its next unit arrives, or is paused. */
  get speaks(): boolean {
    return this.#audio.player.stats.playing || this.#gate.inTurn;
  }

  /** Whether nothing is heard, paused, or waits to be heard. */
  get silent(): boolean {
    return !this.speaks && !this.paused && !this.#held.waits;
  }

  get paused(): boolean {
    return this.#audio.player.stats.paused;
  }

  /** From the end of the user's speech to the model's first audio, ms. */
  get responses(): ResponseTimes {
    return this.#responses;
  }

  /**
   * Each interruption: the time from the user's first sound to the model's silence, ms. Null if the user
   * pressed a button, or if the model was between two sounds.
   */
  get interruptions(): readonly (number | null)[] {
    return this.#interruptions;
  }

  unit(result: Result): void {
    const begins = !this.#gate.inTurn;
    const verdict = this.#gate.unit(result);
    this.#transcript.add("user", result.user_text ?? ""); // the text arrives at the end of an utterance
    if (verdict === "flush") {
      this.#interruptions.push(this.#audio.userVoiceMs || null);
      this.#cut();
    }
    if (verdict === "play") this.#playOrKeep(result, begins);
    else if (result.end_of_turn) this.#endTurn();
  }

  /** Silence until `resume`. What arrives waits. */
  pause(): void {
    const { player, userVoiceMs } = this.#audio;
    const wasHeard = player.stats.playing;
    const silentInMs = player.pause();
    this.#stopMs = wasHeard ? userVoiceMs + silentInMs : null;
  }

  /** Continues where the speech paused. */
  resume(): void {
    this.#stopMs = null;
    this.#audio.player.resume();
  }

  /** The user interrupts the current speech, if there is any. */
  interrupt(): void {
    if (this.speaks) this.#interruptions.push(this.#stopMs);
    this.silence();
  }

  /** Drops the rest of the current speech. */
  silence(): void {
    this.#stopMs = null;
    this.#gate.interrupt();
    this.#cut();
  }

  #playOrKeep(result: Result, begins: boolean): void {
    const waits = begins && this.#options.waits && this.#audio.userSpeaks;
    if (waits || this.#held.waits) this.#held.keep(result);
    else this.#play(result);
  }

  #captured(block: Samples): void {
    const ms = (block.length / INPUT_RATE) * 1000;
    const units = this.#held.captured(ms, this.#audio.userSpeaks);
    for (const unit of units) this.#play(unit);
    if (units.length > 0) this.#options.onLines();
  }

  #play(result: Result): void {
    this.#transcript.say("model", result.text);
    this.#audio.player.push(result.audio_data);
    if (result.end_of_turn) this.#endTurn();
  }

  #endTurn(): void {
    this.#audio.player.endTurn();
    this.#transcript.end("model");
  }

  #cut(): void {
    this.#held.take();
    this.#audio.player.flush();
    this.#transcript.end("model", { cut: true });
  }
}

/** What to do with the audio of a unit. */
export type GateDecision =
  | "play"
  /** The model stopped in mid-speech: drop scheduled audio. */
  | "flush"
  /** No audio, or audio of a turn that the user interrupted. */
  | "ignore";

/** Decides whether the model's audio is still wanted. Pure. */
export class SpeechGate {
  #inTurn = false;
  #interrupted = false;

  /** Whether a turn has begun that is neither over nor interrupted. */
  get inTurn(): boolean {
    return this.#inTurn && !this.#interrupted;
  }

  /** Ignores the rest of this turn. */
  interrupt(): void {
    this.#interrupted = true;
  }

  unit(unit: { is_listen: boolean; end_of_turn: boolean }): GateDecision {
    const wasInTurn = this.#inTurn;
    const wasInterrupted = this.#interrupted;
    this.#inTurn = !unit.is_listen && !unit.end_of_turn;
    if (!this.#inTurn) this.#interrupted = false;
    if (unit.is_listen) return wasInTurn && !wasInterrupted ? "flush" : "ignore";
    return wasInterrupted ? "ignore" : "play";
  }
}

const SLOWEST_MS = 30_000; // later audio does not answer the user's last speech

/** Times from the end of the user's speech to the model's first audio, ms. Pure. */
export class ResponseTimes {
  readonly #times: number[] = [];

  get last(): number | null {
    return this.#times.at(-1) ?? null;
  }

  get median(): number | null {
    return median(this.#times);
  }

  get longest(): number | null {
    return this.#times.length > 0 ? Math.max(...this.#times) : null;
  }

  /** `audioAt`: start of the model's audio. `userAt`: end of the user's speech. */
  add(userAt: number, audioAt: number): void {
    const ms = audioAt - userAt;
    if (ms > 0 && ms < SLOWEST_MS) this.#times.push(ms);
  }
}

/** Null if there are no values. */
export function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return low === undefined || high === undefined ? null : (low + high) / 2;
}

const LONGEST_MS = 4000; // a person stops by then; a television in the room does not

/** Keeps what the model says while the user speaks, in order, until the user stops. Pure. */
class HeldTurn<Unit> {
  #units: Unit[] = [];
  #heldMs = 0;

  /** Whether something is kept. What follows must then be kept as well. */
  get waits(): boolean {
    return this.#units.length > 0;
  }

  keep(unit: Unit): void {
    this.#units.push(unit);
  }

  /**
   * `ms` of the user's audio were captured. Returns what must be played now. That is everything
   * if the user is silent, or 4 s after the first unit.
   */
  captured(ms: number, userSpeaks: boolean): Unit[] {
    if (!this.waits) return [];
    this.#heldMs += ms;
    return userSpeaks && this.#heldMs < LONGEST_MS ? [] : this.take();
  }

  /** Returns everything that is kept, and keeps it no longer. */
  take(): Unit[] {
    const units = this.#units;
    this.#units = [];
    this.#heldMs = 0;
    return units;
  }
}
