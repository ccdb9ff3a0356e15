import type { AudioDesk } from "../audio/audio-desk.ts";
import type { Result } from "../protocol/duplex-messages.ts";
import { ResponseTimes } from "./response-times.ts";
import { SpeechGate } from "./speech-gate.ts";
import { type Line, Transcript } from "./transcript.ts";

/** What the model says: heard, written down, and cut off when it is no longer wanted. */
export class ModelVoice {
  readonly #desk: AudioDesk;
  readonly #gate = new SpeechGate();
  readonly #transcript = new Transcript();
  readonly #responses = new ResponseTimes();

  /** `onChange`: the model begins to be heard, or falls silent. */
  constructor(desk: AudioDesk, onChange: (speaks: boolean) => void) {
    this.#desk = desk;
    desk.player.on("start", ({ atMs }) => {
      this.#responses.add(desk.userLastHeardAt, atMs);
      onChange(true);
    });
    desk.player.on("idle", () => onChange(false));
    desk.player.on("flush", () => onChange(false));
  }

  get lines(): readonly Line[] {
    return this.#transcript.lines;
  }

  /** From the user's last sound to the model's first one, ms. */
  get responses(): ResponseTimes {
    return this.#responses;
  }

  unit(result: Result): void {
    const { player } = this.#desk;
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
    this.#desk.player.flush();
    this.#transcript.end("model", { cut: true });
  }
}
