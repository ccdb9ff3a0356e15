import type { AudioEngine } from "../audio/audio-engine.ts";
import { INPUT_RATE, type Samples } from "../audio/pcm.ts";
import type { VoiceChange } from "../audio/voice-activity.ts";
import { frameEdge, grabFrame } from "../media/camera.ts";
import type { DuplexClientMessage, DuplexPrepare } from "../protocol/client-messages.ts";
import { connectDuplex, type DuplexClient, newSessionId } from "../protocol/clients.ts";
import type { DuplexServerMessage, Notice, Prepared, Result } from "../protocol/server-messages.ts";
import {
  collectMetrics,
  type DuplexMetrics,
  diagnosticFields,
  NO_METRICS,
  UnitLatencyTracker,
} from "./metrics.ts";
import { ModelSpeech } from "./model-speech.ts";
import { NEW_SESSION } from "./session.ts";
import type { TranscriptLine } from "./transcript.ts";
import {
  type LateConfig,
  VoiceSession,
  type VoiceSessionOptions,
  type VoiceSessionState,
} from "./voice-session.ts";

const FRAME_MS = 1000; // audio between two video frames

/** Sends chunks in order, one of each second with the current video frame. */
class ChunkSender {
  readonly #client: DuplexClient;
  readonly #clock: UnitLatencyTracker;
  readonly #onUnreadable: (cause: unknown) => void;
  readonly #prepared: number;
  /** Most slices of a frame, from the next chunk on. */
  maxSliceNums: number;
  /** Source of video frames. Undefined for audio only. */
  videoElement: HTMLVideoElement | undefined;
  /** While closed, chunks are dropped. */
  open = false;
  #forceListen = false;
  #unreadable: HTMLVideoElement | undefined;
  #unseenMs = FRAME_MS;
  #queue: Promise<void> = Promise.resolve();
  #waiting = 0;
  #count = 0;

  /** `onUnreadable` is called once for each video without readable frames. */
  constructor(
    client: DuplexClient,
    clock: UnitLatencyTracker,
    maxSliceNums: number,
    onUnreadable: (cause: unknown) => void,
  ) {
    this.#client = client;
    this.#clock = clock;
    this.#onUnreadable = onUnreadable;
    this.#prepared = this.maxSliceNums = maxSliceNums;
  }

  get count(): number {
    return this.#count;
  }

  /** Sets `force_listen` in the next chunk. */
  forceListen(): void {
    this.#forceListen = true;
  }

  send(chunk: Samples): void {
    this.#waiting += 1;
    this.#queue = this.#queue.then(() => this.#send(chunk));
  }

  /** The newest chunk takes the frame, which would delay the speech in those that wait behind it. */
  async #send(audio: Samples): Promise<void> {
    const isNewest = this.#waiting === 1;
    this.#waiting -= 1;
    const isDue = isNewest && this.open && this.#unseenMs >= FRAME_MS;
    const frame = isDue && this.videoElement && (await this.#frame(this.videoElement));
    if (!this.open) return;
    const durationMs = (audio.length / INPUT_RATE) * 1000;
    this.#unseenMs = (frame ? this.#unseenMs % FRAME_MS : this.#unseenMs) + durationMs;
    const isChanged = frame && this.maxSliceNums !== this.#prepared;
    if (this.#client.connection === "open") this.#clock.sent(durationMs, performance.now());
    const message: DuplexClientMessage = {
      type: "audio_chunk",
      audio,
      frame_base64_list: frame ? [frame] : undefined,
      force_listen: this.#forceListen || undefined,
      max_slice_nums: isChanged ? this.maxSliceNums : undefined,
    };
    this.#client.sendPerishable(message, durationMs);
    this.#forceListen = false;
    this.#count += 1;
  }

  async #frame(video: HTMLVideoElement): Promise<Uint8Array<ArrayBuffer> | undefined> {
    try {
      return await grabFrame(video, frameEdge(this.maxSliceNums));
    } catch (cause) {
      if (video !== this.#unreadable) this.#onUnreadable(cause);
      this.#unreadable = video;
      return undefined;
    }
  }
}

export interface DuplexSessionOptions extends VoiceSessionOptions {
  kind: "audio" | "omni";
  prepare: DuplexPrepare;
  /** The video element of a camera or file. Video calls only. `setVideoElement` replaces it. */
  videoElement?: HTMLVideoElement | undefined;
  /**
   * Let the user's speech interrupt the model. Playback pauses as soon as the user speaks, until the
   * server knows whether it is speech; after a cough it continues. No answer starts before the user stops.
   * Default true.
   */
  bargeIn?: boolean;
}

export interface Limit {
  readonly of: "duration" | "context";
  /** When it is reached, `performance.now()`. An estimate for the context. */
  readonly deadline: number;
}

export interface DuplexSessionState extends VoiceSessionState {
  /** Audible now, not only received. */
  readonly modelSpeaks: boolean;
  readonly userSpeaks: boolean;
  /** When the server ends a pause, `performance.now()`. */
  readonly pauseDeadline: number | null;
  /** A limit that is near: session length or context size. */
  readonly limit: Limit | null;
  readonly transcript: readonly TranscriptLine[];
  readonly metrics: DuplexMetrics;
  /** The engine is simulated and its answers have no meaning. */
  readonly simulated: boolean;
}

export const NEW_DUPLEX: DuplexSessionState = {
  ...NEW_SESSION,
  muted: false,
  modelSpeaks: false,
  userSpeaks: false,
  pauseDeadline: null,
  limit: null,
  transcript: [],
  metrics: NO_METRICS,
  sourceEnded: false,
  simulated: false,
};

const DIAGNOSTIC_MS = 10_000;
const PLAYED_MS = 1000; // between two reports of what was played
const CHUNK_MS = 1000; // for edges that do not say what suits the engine
const STALLED_MS = 8000; // units arrive every second; a lost worker is replaced within this time

/** A full-duplex session without UI. Call `start` once, in a user gesture. */
export class DuplexSession extends VoiceSession<
  DuplexSessionState,
  DuplexServerMessage,
  DuplexClientMessage
> {
  readonly #settings: DuplexSessionOptions;
  readonly #clock = new UnitLatencyTracker();
  #voice: ModelSpeech | undefined;
  #sender: ChunkSender | undefined;
  #videoElement: HTMLVideoElement | undefined;
  /** The model has said goodbye: the call ends when it has been played. */
  #leaves = false;
  #receivedAt = 0;
  #diagnosticAt = 0;
  #reportedAt = 0;

  constructor(settings: DuplexSessionOptions) {
    const sessionId = newSessionId(settings.kind === "audio" ? "adx" : "omni");
    const audio = { silero: true, ...settings.audio };
    super({ ...NEW_DUPLEX, sessionId }, { ...settings, audio });
    this.#settings = settings;
    this.#videoElement = settings.videoElement;
  }

  /** Pauses. The server ends the session after `timeoutS`, by default its own limit. */
  pause(timeoutS?: number): void {
    if (this.state.value.phase !== "active") return;
    this.askWatched({ type: "pause", timeout: timeoutS });
    if (this.#sender) this.#sender.open = false;
    this.#voice?.resume(); // the voice that paused it does not count during a pause of the call
    void this.audio?.pause();
    this.patch({ phase: "paused" });
  }

  resume(): void {
    if (this.state.value.phase !== "paused") return;
    this.askWatched({ type: "resume" }); // the connection may have died during the pause
    this.patch({ pauseDeadline: null });
    this.#go();
  }

  /** Interrupts the model and makes it listen. */
  forceListen(): void {
    if (this.state.value.phase !== "active") return;
    this.#leaves = false;
    this.#sender?.forceListen();
    this.#voice?.interrupt();
    this.#showLines();
  }

  /** Uses another camera or file from the next chunk on. */
  setVideoElement(videoElement: HTMLVideoElement | undefined): void {
    this.#videoElement = videoElement;
    if (this.#sender) this.#sender.videoElement = videoElement;
  }

  /** Sends frames with more or less detail from the next chunk on. */
  setMaxSliceNums(maxSliceNums: number): void {
    if (this.#sender) this.#sender.maxSliceNums = maxSliceNums;
  }

  override stop(): void {
    if (this.state.value.phase === "active") this.#sendDiagnostic();
    this.#fallSilent();
    super.stop();
  }

  protected override prepareMessage(config: LateConfig): DuplexClientMessage {
    const { prepare } = this.#settings;
    return {
      type: "prepare",
      ...prepare,
      config: {
        ...prepare.config,
        ...config,
        interim_transcripts: true,
        barge_in: this.#settings.bargeIn ?? true,
      },
    };
  }

  protected override stopMessage(): DuplexClientMessage {
    return { type: "stop" };
  }

  protected override release(): void {
    this.#fallSilent();
    this.patch({ modelSpeaks: false, userSpeaks: false });
    super.release();
  }

  protected override connect(audio: AudioEngine): DuplexClient {
    const { kind, prepare, connection, bargeIn = true } = this.#settings;
    this.#voice = new ModelSpeech(audio, {
      waits: bargeIn,
      onChange: (modelSpeaks) => this.#modelSpeaks(modelSpeaks),
      onLines: () => this.#showLines(),
    });
    audio.on("voice", (change) => this.#userVoice(change));
    const client = connectDuplex(this.state.value.sessionId, connection);
    client.on(
      "connection",
      (connection) => connection === "reconnecting" && this.#clock.interrupted(),
    );
    const slices = prepare.max_slice_nums ?? 1;
    this.#sender = new ChunkSender(client, this.#clock, slices, (cause) =>
      this.emit("problem", { code: "frame_unreadable", message: String(cause) }),
    );
    this.#sender.videoElement = kind === "omni" ? this.#videoElement : undefined;
    return client;
  }

  protected override onMessage(message: DuplexServerMessage): void {
    this.#receivedAt = performance.now();
    switch (message.type) {
      case "queued":
      case "queue_update":
        this.onQueued(message);
        break;
      case "queue_done":
        void this.prepare();
        break;
      case "prepared":
        this.#prepared(message);
        break;
      case "result":
        this.#unit(message);
        break;
      case "paused":
        this.#paused(message.timeout);
        break;
      case "notice":
        this.#limited(message);
        break;
      case "stopped":
        this.stopped();
        break;
      case "timeout":
        this.end({ by: "timeout", code: "timeout", message: message.reason });
        break;
      case "error":
        this.onError(message);
    }
  }

  protected override onChunk(chunk: Samples): void {
    if (this.state.value.phase !== "active") return;
    this.#sender?.send(chunk);
    const isReportDue = performance.now() - this.#reportedAt >= PLAYED_MS;
    if (isReportDue && this.audio?.player.stats.playing) this.#acknowledgePlayback();
    this.#watchConnection();
    if (performance.now() - this.#diagnosticAt > DIAGNOSTIC_MS) this.#sendDiagnostic();
  }

  #prepared({ recording_session_id: recordingId, chunk_ms }: Prepared): void {
    if (this.state.value.phase !== "preparing") return;
    this.patch({ recordingId });
    this.#diagnosticAt = performance.now();
    const chunkMs = this.#settings.prepare.config?.chunk_ms ?? chunk_ms ?? CHUNK_MS;
    this.#go(Math.round((INPUT_RATE * chunkMs) / 1000));
  }

  /** Starts sending chunks. */
  #go(chunkSamples?: number): void {
    this.#receivedAt = performance.now();
    this.patch({ phase: "active" });
    if (this.#sender) this.#sender.open = true;
    this.startAudio(chunkSamples);
  }

  #paused(timeoutS: number | null): void {
    const pauseDeadline = timeoutS === null ? null : performance.now() + timeoutS * 1000;
    this.patch({ pauseDeadline });
  }

  #limited({ limit, seconds_left }: Notice): void {
    const of = limit === "duration" ? "duration" : "context";
    this.patch({ limit: { of, deadline: performance.now() + seconds_left * 1000 } });
  }

  #unit(result: Result): void {
    const unit = this.#clock.received(result, performance.now(), Date.now());
    // What is on its way when the user hangs up may begin a new turn, which would be spoken.
    if (this.state.value.phase !== "stopping") this.#voice?.unit(result);
    this.patch({ transcript: this.#voice?.lines ?? [], simulated: result.simulated });
    this.#collectMetrics({ unit, units: this.state.value.metrics.units + 1 });
    this.emit("unit", unit);
    if (result.goodbye) this.#leaves = true;
    this.#hangUp();
  }

  /** Ends the call once the goodbye of the model has been played. */
  #hangUp(): void {
    const leaves = (): boolean =>
      this.#leaves && this.state.value.phase === "active" && (this.#voice?.silent ?? false);
    if (leaves()) this.stopWhenHeard(leaves);
  }

  /** Acknowledges playback once more when it ends or is interrupted. */
  #modelSpeaks(modelSpeaks: boolean): void {
    this.patch({ modelSpeaks });
    if (!modelSpeaks && this.state.value.phase === "active") this.#acknowledgePlayback();
    this.#hangUp();
  }

  /** The model's speech follows first, so that it has continued when the voice has ended. */
  #userVoice(change: VoiceChange): void {
    if (this.state.value.phase === "active" && (this.#settings.bargeIn ?? true)) {
      this.#bargeIn(change);
    }
    this.patch({ userSpeaks: change !== "ends" });
  }

  /** The model pauses when the user speaks, also in a gap because a unit is late. */
  #bargeIn(change: VoiceChange): void {
    if (change === "begins" && this.#voice?.speaks) this.#voice.pause();
    else if (change === "ends" && this.#voice?.paused) this.#voice.resume();
  }

  /** Stops chunks and playback. */
  #fallSilent(): void {
    if (this.#sender) this.#sender.open = false;
    this.#voice?.dropInterim();
    this.#voice?.silence();
    this.#showLines();
  }

  /** Reports how much of an answer was played, so that the model keeps only that in its context. */
  #acknowledgePlayback(): void {
    this.#reportedAt = performance.now();
    const played_ms = Math.round(this.audio?.player.stats.turnPlayedMs ?? 0);
    this.client.send({ type: "playback_ack", played_ms });
  }

  #showLines(): void {
    this.patch({ transcript: this.#voice?.lines ?? [] });
  }

  #collectMetrics(
    change: Pick<Partial<DuplexSessionState["metrics"]>, "unit" | "units"> = {},
  ): void {
    if (!this.audio || !this.#voice) return;
    const measured = collectMetrics(this.audio, this.#voice, this.#sender?.count ?? 0);
    this.patch({ metrics: { ...this.state.value.metrics, ...measured, ...change } });
  }

  /** Replaces a connection without messages, which may be dead although it is open. */
  #watchConnection(): void {
    const now = performance.now();
    if (now - this.#receivedAt < STALLED_MS) return;
    this.#receivedAt = now;
    this.client.reconnect();
  }

  #sendDiagnostic(): void {
    this.#diagnosticAt = performance.now();
    this.#collectMetrics();
    this.client.send({
      type: "client_diagnostic",
      metrics: diagnosticFields(this.state.value.metrics),
    });
  }
}
