import { devices } from "../../audio/audio-settings.ts";
import type { Player } from "../../audio/player.ts";
import { Speaker } from "../../audio/speaker.ts";
import { nowPlaying } from "../../components/audio-playback.ts";
import { Store } from "../../state/store.ts";

/** Speaks answers while they arrive. */
export class AnswerSpeaker {
  /** Whether audio is playing. */
  readonly speaks = new Store(false);
  #speaker: Speaker | null = null;
  #speakerId = "";

  constructor() {
    nowPlaying.subscribe((playback) => playback && this.stopSpeech()); // only one voice plays at a time
  }

  /** Call it in a user gesture. Rejects if there is no audio output, or if the speaker is gone. */
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
