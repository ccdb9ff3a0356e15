import type { AudioEngine } from "../audio/audio-engine.ts";
import { INPUT_RATE, OUTPUT_RATE, type Samples } from "../audio/pcm.ts";
import type { Result } from "../protocol/server-messages.ts";
import { SpokenWords } from "./spoken-words.ts";
import { Transcript, type TranscriptLine } from "./transcript.ts";

const LONGEST_PAUSE_MS = 2500; // the server has decided by then whether the voice interrupts
const WORDS_MS = 50; // how often the spoken words are looked for

interface ModelSpeechOptions {
  /** Whether a turn that begins while the user speaks waits until the user stops. */
  waits: boolean;
  /** Playback starts or stops. */
  onChange: (speaks: boolean) => void;
  /** The transcript has changed: a turn that waited begins, or a word is spoken. */
  onLines: () => void;
}

/** The model's speech: playback, transcript and interruption. */
export class ModelSpeech {
  readonly #audio: AudioEngine;
  readonly #options: ModelSpeechOptions;
  readonly #gate = new SpeechGate();
  readonly #held = new HeldTurn<Result>();
  readonly #transcript = new Transcript();
  readonly #words = new SpokenWords();
  readonly #responses = new ResponseTimes();
  #watch: ReturnType<typeof setInterval> | undefined;
  readonly #interruptions: (number | null)[] = [];
  #stopMs: number | null = null;
  #pausedMs = 0;

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

  /** Whether the answer plays, will play when its next unit arrives, or is paused. */
  get speaks(): boolean {
    return this.#audio.player.stats.playing || this.#gate.inTurn;
  }

  /** Whether nothing plays, is paused, or waits to play. */
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
    this.#transcript.addUserText(result.user_text ?? ""); // it arrives at the end of an utterance
    this.#transcript.hearing(result.interim_user_text ?? "");
    if (verdict === "flush") {
      const wasPlaying = !this.#held.waits; // else the user did not know that there was an answer
      if (wasPlaying) this.#interruptions.push(this.#stopMs ?? (this.#audio.userVoiceMs || null));
      this.#stopMs = null;
      this.#cut();
    }
    if (verdict === "play") this.#playOrKeep(result, begins);
    else if (result.end_of_turn) this.#endTurn();
  }

  /** Silence until `resume`, for 2.5 s at most. What arrives waits. */
  pause(): void {
    const { player, userVoiceMs } = this.#audio;
    const wasPlaying = player.stats.playing;
    this.#pausedMs = 0;
    const silentInMs = player.pause();
    this.#stopMs = wasPlaying ? userVoiceMs + silentInMs : null;
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

  /** The call is over: words that were not final are left out. */
  dropInterim(): void {
    this.#transcript.hearing("");
  }

  #playOrKeep(result: Result, begins: boolean): void {
    const waits = begins && this.#options.waits && this.#audio.userSpeaks;
    if (waits || this.#held.waits) this.#held.keep(result);
    else this.#play(result);
  }

  #captured(block: Samples): void {
    const ms = (block.length / INPUT_RATE) * 1000;
    this.#pausedMs += ms;
    if (this.paused && this.#pausedMs >= LONGEST_PAUSE_MS) this.resume();
    const units = this.#held.captured(ms, this.#audio.userSpeaks);
    for (const unit of units) this.#play(unit);
    if (units.length > 0) this.#options.onLines();
  }

  #play(result: Result): void {
    const { text, words, audio_data } = result;
    const line = this.#transcript.say(text);
    this.#audio.player.push(audio_data);
    if (line !== null)
      this.#words.push(line, text, words, (audio_data.length / OUTPUT_RATE) * 1000);
    this.#lightWords();
    if (result.end_of_turn) this.#endTurn();
  }

  #endTurn(): void {
    this.#audio.player.endTurn();
    this.#transcript.end();
  }

  #cut(): void {
    this.#held.take();
    this.#lightWords();
    this.#audio.player.flush();
    this.#words.drop(this.#audio.player.stats.playedMs);
    this.#stopWatching();
    this.#transcript.end({ cut: true });
  }

  /** Marks the words that were spoken since the last time. Returns whether there are any. */
  #lightWords(): boolean {
    const reached = this.#words.reached(this.#audio.player.stats.playedMs);
    for (const { line, characters } of reached) this.#transcript.light(line, characters);
    if (!this.#words.waits) this.#stopWatching();
    else this.#watch ??= setInterval(() => this.#lightWords() && this.#options.onLines(), WORDS_MS);
    return reached.length > 0;
  }

  #stopWatching(): void {
    clearInterval(this.#watch);
    this.#watch = undefined;
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

  unit(unit: Pick<Result, "is_listen" | "end_of_turn" | "interrupted">): GateDecision {
    const wasInterrupted = this.#interrupted;
    this.#inTurn = !unit.is_listen && !unit.end_of_turn;
    if (!this.#inTurn) this.#interrupted = false;
    if (unit.is_listen) return unit.interrupted && !wasInterrupted ? "flush" : "ignore";
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
