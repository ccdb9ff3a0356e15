import type { AudioEngine } from "../audio/audio-engine.ts";
import type { DuplexResult } from "../protocol/duplex-messages.ts";
import { Transcript, type TranscriptLine } from "./transcript.ts";

/** The model's speech: playback, transcript and interruption. */
export class ModelSpeech {
  readonly #audio: AudioEngine;
  readonly #gate = new SpeechGate();
  readonly #transcript = new Transcript();
  readonly #responses = new ResponseTimes();

  /** `onChange`: playback starts or stops. */
  constructor(audio: AudioEngine, onChange: (speaks: boolean) => void) {
    this.#audio = audio;
    audio.player.on("start", ({ atMs }) => {
      this.#responses.add(audio.userLastSpokeAt, atMs);
      onChange(true);
    });
    audio.player.on("idle", () => onChange(false));
    audio.player.on("flush", () => onChange(false));
  }

  get lines(): readonly TranscriptLine[] {
    return this.#transcript.lines;
  }

  /** Whether the model is heard, or will be when its next unit arrives. */
  get speaks(): boolean {
    return this.#audio.player.stats.playing || this.#gate.inTurn;
  }

  /** From the end of the user's speech to the model's first audio, ms. */
  get responses(): ResponseTimes {
    return this.#responses;
  }

  unit(result: DuplexResult): void {
    const { player } = this.#audio;
    const verdict = this.#gate.unit(result);
    this.#transcript.add("user", result.user_text); // the text arrives at the end of an utterance
    if (verdict === "play") {
      this.#transcript.say("model", result.text);
      player.push(result.audio_data);
    }
    if (verdict === "flush") this.#cut();
    if (result.end_of_turn) {
      player.endTurn();
      this.#transcript.end("model");
    }
  }

  /** Interrupts the current speech. */
  silence(): void {
    this.#gate.interrupt();
    this.#cut();
  }

  #cut(): void {
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
    const sorted = this.#times.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? null;
  }

  /** `audioAt`: start of the model's audio. `userAt`: end of the user's speech. */
  add(userAt: number, audioAt: number): void {
    const ms = audioAt - userAt;
    if (ms > 0 && ms < SLOWEST_MS) this.#times.push(ms);
  }
}
