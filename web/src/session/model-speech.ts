import type { AudioEngine } from "../audio/audio-engine.ts";
import type { DuplexResult } from "../protocol/duplex-messages.ts";
import { ResponseTimes } from "./response-times.ts";
import { SpeechGate } from "./speech-gate.ts";
import { Transcript, type TranscriptLine } from "./transcript.ts";

/** What the model says: heard, written down, and cut off when it is no longer wanted. */
export class ModelSpeech {
  readonly #audio: AudioEngine;
  readonly #gate = new SpeechGate();
  readonly #transcript = new Transcript();
  readonly #responses = new ResponseTimes();

  /** `onChange`: the model begins to be heard, or falls silent. */
  constructor(audio: AudioEngine, onChange: (speaks: boolean) => void) {
    this.#audio = audio;
    audio.player.on("start", ({ atMs }) => {
      this.#responses.add(audio.userLastHeardAt, atMs);
      onChange(true);
    });
    audio.player.on("idle", () => onChange(false));
    audio.player.on("flush", () => onChange(false));
  }

  get lines(): readonly TranscriptLine[] {
    return this.#transcript.lines;
  }

  /** From the user's last sound to the model's first one, ms. */
  get responses(): ResponseTimes {
    return this.#responses;
  }

  unit(result: DuplexResult): void {
    const { player } = this.#audio;
    const verdict = this.#gate.unit(result);
    this.#transcript.add("user", result.user_text); // an utterance comes when it has ended
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

  /** Nothing more of what the model is saying is heard. */
  silence(): void {
    this.#gate.interrupt();
    this.#cut();
  }

  #cut(): void {
    this.#audio.player.flush();
    this.#transcript.end("model", { cut: true });
  }
}
