import type { Player } from "../../audio/player.ts";
import { Speaker } from "../../audio/speaker.ts";
import { nowPlaying } from "../../components/audio-playback.ts";
import { devices } from "../../settings/devices.ts";
import { Store } from "../../state/store.ts";

/** Speaks the answers as they come. */
export class AnswerSpeaker {
  /** Whether something is heard. */
  readonly speaks = new Store(false);
  #speaker: Speaker | null = null;
  #speakerId = "";

  constructor() {
    nowPlaying.subscribe((previewedVoice) => previewedVoice && this.stopSpeech()); // one voice at a time
  }

  /** In a click. Rejects where there is no sound, or the chosen speaker is gone. */
  async player(): Promise<Player> {
    this.#speaker ??= await this.#open();
    const id = devices.value.speaker ?? "";
    if (id !== this.#speakerId) await this.#speaker.setSpeaker(id);
    this.#speakerId = id;
    await this.#speaker.resume();
    return this.#speaker.player;
  }

  stopSpeech(): void {
    this.#speaker?.player.flush();
    this.speaks.set(false);
  }

  close(): void {
    void this.#speaker?.close();
    this.#speaker = null;
  }

  async #open(): Promise<Speaker> {
    const speaker = await Speaker.open({ loopback: false });
    speaker.player.on("start", () => this.speaks.set(true));
    speaker.player.on("idle", () => this.speaks.set(false));
    speaker.player.on("flush", () => this.speaks.set(false));
    return speaker;
  }
}
