import { INPUT_RATE, type Samples } from "../audio/pcm.ts";
import { frameEdge, grabFrame } from "../media/camera.ts";
import type { DuplexClient } from "../protocol/clients.ts";
import type { UnitLatencyTracker } from "./metrics.ts";

/** Sends chunks in order, each with the current video frame. */
export class ChunkSender {
  readonly #client: DuplexClient;
  readonly #clock: UnitLatencyTracker;
  readonly #maxSliceNums: number;
  /** Source of video frames. Undefined for audio only. */
  videoElement: HTMLVideoElement | undefined;
  /** While closed, chunks are dropped. */
  open = false;
  #forceListen = false;
  #queue: Promise<void> = Promise.resolve();
  #count = 0;

  constructor(client: DuplexClient, clock: UnitLatencyTracker, maxSliceNums: number) {
    this.#client = client;
    this.#clock = clock;
    this.#maxSliceNums = maxSliceNums;
  }

  get count(): number {
    return this.#count;
  }

  /** Sets `force_listen` in the next chunk. */
  forceListen(): void {
    this.#forceListen = true;
  }

  send(chunk: Samples): void {
    this.#queue = this.#queue.then(() => this.#send(chunk));
  }

  async #send(audio: Samples): Promise<void> {
    const frame =
      this.open && this.videoElement && (await grabFrame(this.videoElement, this.#edge));
    if (!this.open) return;
    const durationMs = (audio.length / INPUT_RATE) * 1000;
    if (this.#client.connection === "open") this.#clock.sent(durationMs, performance.now());
    this.#client.sendPerishable({
      type: "audio_chunk",
      audio,
      frame_base64_list: frame ? [frame] : undefined,
      force_listen: this.#forceListen || undefined,
    });
    this.#forceListen = false;
    this.#count += 1;
  }

  get #edge(): number {
    return frameEdge(this.#maxSliceNums);
  }
}
