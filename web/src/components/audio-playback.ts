import type { Samples } from "../audio/pcm.ts";
import { devices } from "../settings/devices.ts";
import { Store } from "../state/store.ts";

/** What is being listened to; microphones and other voices should rest meanwhile. */
export const nowPlaying = new Store<AudioPlayback | null>(null);

let context: AudioContext | null = null;

/** A recorded sound that is being listened to; there is one at a time in the whole page. */
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

  /** How far it is, seconds. */
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

/** Play from `fromS` on; whatever else is listened to falls silent. Call it on a user's gesture. */
export function playAudio(
  samples: Samples,
  rate: number,
  fromS: number,
  onEnd: () => void,
): AudioPlayback {
  stopAudio();
  context ??= new AudioContext();
  void context.resume();
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

/** A speaker that is gone, or a browser without the choice, leaves the system's own. */
async function useChosenSpeaker(to: AudioContext): Promise<void> {
  const id = devices.value.speaker ?? "";
  if (!("setSinkId" in to) || (to as { sinkId?: string }).sinkId === id) return;
  await (to as { setSinkId(id: string): Promise<void> }).setSinkId(id).catch(() => undefined);
}
