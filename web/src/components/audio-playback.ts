import { devices } from "../audio/audio-settings.ts";
import type { Samples } from "../audio/pcm.ts";
import { Store } from "../state/store.ts";

/** The audio that is playing, or null. Microphones and voice previews stop while it plays. */
export const nowPlaying = new Store<AudioPlayback | null>(null);

let context: AudioContext | null = null;

/** Playback of recorded audio. Only one plays at a time in a page. */
export class AudioPlayback {
  readonly #context: AudioContext;
  readonly #source: AudioBufferSourceNode;
  readonly #began: number;
  readonly #onEnd: () => void;

  constructor(context: AudioContext, buffer: AudioBuffer, fromS: number, onEnd: () => void) {
    this.#context = context;
    this.#onEnd = onEnd;
    this.#began = context.currentTime - fromS;
    this.#source = new AudioBufferSourceNode(context, { buffer });
    this.#source.connect(context.destination);
    this.#source.onended = () => this.stop();
    this.#source.start(0, fromS);
  }

  /** Playback position, seconds. */
  get atS(): number {
    return this.#context.currentTime - this.#began;
  }

  stop(): void {
    if (nowPlaying.value !== this) return;
    this.#source.onended = null;
    this.#source.stop();
    nowPlaying.set(null);
    this.#onEnd();
  }
}

/** Plays from `fromS` and stops other audio. Call it in a user gesture. */
export function playAudio(
  samples: Samples,
  rate: number,
  fromS: number,
  onEnd: () => void,
): AudioPlayback {
  stopAudio();
  context ??= new AudioContext();
  context.resume().catch(() => undefined);
  void useChosenSpeaker(context);
  const buffer = context.createBuffer(1, samples.length, rate);
  buffer.copyToChannel(samples, 0);
  const playing = new AudioPlayback(context, buffer, fromS, onEnd);
  nowPlaying.set(playing);
  return playing;
}

export function stopAudio(): void {
  nowPlaying.value?.stop();
}

/** The system default is used if the speaker is gone or cannot be selected. */
async function useChosenSpeaker(to: AudioContext): Promise<void> {
  const id = devices.value.speaker ?? "";
  if (!("setSinkId" in to) || (to as { sinkId?: string }).sinkId === id) return;
  await (to as { setSinkId(id: string): Promise<void> }).setSinkId(id).catch(() => undefined);
}
