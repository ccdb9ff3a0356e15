import { AudioEngine, type AudioEngineOptions } from "../audio/audio-engine.ts";
import type { AudioSource } from "../audio/capture.ts";
import type { Samples } from "../audio/pcm.ts";
import type { ClientOptions, ProtocolClient } from "../protocol/clients.ts";
import type { ErrorMessage } from "../protocol/server-messages.ts";
import { Session, type SessionEnd, type SessionState } from "./session.ts";

/** The recorder gets what was played in blocks, a little later. */
const LAST_BLOCKS_MS = 100;

/** Options that all voice sessions share. */
export interface VoiceSessionOptions {
  audio?: AudioEngineOptions;
  /** Key and server, see `socketProtocols()`. */
  connection?: ClientOptions;
  /**
   * What the model says first. Empty: it waits for the user. It is read when the session has a
   * worker, because a client may wait before any worker runs that can say what it does.
   */
  greeting?: () => Promise<string>;
  /** One of the engine's voices, read at the same time. */
  voice?: () => Promise<string | undefined>;
}

/** What is read when the session has a worker. */
export interface LateConfig {
  greeting?: string;
  voice?: string;
}

export interface VoiceSessionState extends SessionState {
  readonly muted: boolean;
  /** The file ended or the microphone was unplugged. Chunks of silence continue. */
  readonly sourceEnded: boolean;
}

/** The end of a session whose connection the browser refuses to open, such as for an invalid address. */
export function notOpened(cause: unknown): SessionEnd {
  const message = cause instanceof Error ? cause.message : String(cause);
  return { by: "connection", code: "not_opened", message, cause };
}

/** A session with a microphone and a speaker. Call `start` once, in a user gesture. */
export abstract class VoiceSession<
  State extends VoiceSessionState,
  Server extends { readonly type: string },
  Client extends object,
> extends Session<State, Server, Client> {
  readonly #options: AudioEngineOptions;
  readonly #greeting: () => Promise<string>;
  readonly #voice: () => Promise<string | undefined>;
  #audio: AudioEngine | undefined;
  #late: LateConfig = {};
  #leaving: ReturnType<typeof setTimeout> | undefined;

  constructor(initial: State, { audio, greeting, voice }: VoiceSessionOptions) {
    super(initial);
    this.#options = audio ?? {};
    this.#greeting = greeting ?? (async () => "");
    this.#voice = voice ?? (async () => undefined);
  }

  /** The audio engine. Undefined before the microphone opens and after the end. */
  get audio(): AudioEngine | undefined {
    return this.#audio;
  }

  /** Never rejects. Errors become `end` of the state. */
  async start(): Promise<void> {
    this.patch({ phase: "opening" });
    try {
      this.#audio = await AudioEngine.open(this.#options);
    } catch (cause) {
      const code = cause instanceof Error ? cause.name : "unknown";
      this.end({ by: "device", code, message: String(cause), cause });
      return;
    }
    if (this.state.value.phase !== "opening") {
      this.release();
      return;
    }
    try {
      this.#connect(this.#audio);
    } catch (cause) {
      this.end(notOpened(cause));
    }
  }

  setMuted(muted: boolean): void {
    if (this.#audio) this.#audio.capture.muted = muted;
    this.patch({ muted } as Partial<State>);
  }

  /**
   * Switches to another microphone or file and closes the old one. Closes `source` if it cannot be
   * used, or if the session has no audio.
   */
  async setSource(source: AudioSource): Promise<void> {
    if (!this.#audio) {
      source.close();
      return;
    }
    try {
      await this.#audio.replaceSource(source);
    } catch (error) {
      source.close();
      throw error;
    }
    if (this.state.value.phase === "active") await source.start();
    this.patch({ sourceEnded: false } as Partial<State>);
  }

  /** Subscribes to the audio engine and opens the connection. */
  protected abstract connect(audio: AudioEngine): ProtocolClient<Server, Client>;
  /** `config` is added to the configuration of the session. */
  protected abstract prepareMessage(config: LateConfig): Client;
  protected abstract onChunk(chunk: Samples): void;

  /** A worker is assigned. Sends `prepare`, unless the user leaves before. */
  protected async prepare(): Promise<void> {
    if (!this.onWorkerAssigned()) return;
    const greeting = await this.#greeting();
    const voice = await this.#voice();
    if (this.state.value.phase !== "preparing") return;
    this.#late = { ...(greeting !== "" && { greeting }), ...(voice && { voice }) };
    this.client.send(this.prepareMessage(this.#late));
  }

  /** If the engine cannot greet, the model waits for the user. */
  protected override onError(error: ErrorMessage): void {
    const { greeting, ...rest } = this.#late;
    const isPreparing = this.state.value.phase === "preparing";
    if (!isPreparing || greeting === undefined || error.field !== "config.greeting") {
      super.onError(error);
      return;
    }
    this.#late = rest;
    this.client.send(this.prepareMessage(rest));
  }

  /** Playback has ended. Stops the session when the last sound has been heard, if it `leaves` then. */
  protected stopWhenHeard(leaves: () => boolean): void {
    const heardInMs = (this.#audio?.player.latencyMs ?? 0) + LAST_BLOCKS_MS;
    this.#leaving ??= setTimeout(() => {
      this.#leaving = undefined;
      if (leaves()) this.stop();
    }, heardInMs);
  }

  protected override release(): void {
    clearTimeout(this.#leaving);
    const audio = this.#audio;
    this.#audio = undefined;
    audio?.player.flush();
    void audio?.close();
  }

  #connect(audio: AudioEngine): void {
    audio.on("chunk", (chunk) => this.onChunk(chunk));
    audio.on("levels", (levels) => this.emit("levels", levels));
    audio.on("sourceEnd", () => this.patch({ sourceEnded: true } as Partial<State>));
    this.emit("audio", audio);
    this.attach(this.connect(audio));
  }
}
