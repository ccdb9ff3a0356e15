import { AudioEngine, type AudioEngineOptions } from "../audio/audio-engine.ts";
import type { AudioSource } from "../audio/capture.ts";
import type { Samples } from "../audio/pcm.ts";
import type { ClientOptions, ProtocolClient } from "../protocol/clients.ts";
import { Session, type SessionState } from "./session.ts";

/** Options that all voice sessions share. */
export interface VoiceSessionOptions {
  audio?: AudioEngineOptions;
  /** Key and server, see `socketProtocols()`. */
  connection?: ClientOptions;
}

export interface VoiceSessionState extends SessionState {
  readonly muted: boolean;
  /** The file ended or the microphone was unplugged. Chunks of silence continue. */
  readonly sourceEnded: boolean;
}

/** A session with a microphone and a speaker. Call `start` once, in a user gesture. */
export abstract class VoiceSession<
  State extends VoiceSessionState,
  Server extends { readonly type: string },
  Client extends object,
> extends Session<State, Server, Client> {
  readonly #options: AudioEngineOptions;
  #audio: AudioEngine | undefined;

  constructor(initial: State, options: AudioEngineOptions) {
    super(initial);
    this.#options = options;
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
    if (this.state.value.phase === "opening") this.#connect(this.#audio);
    else this.release();
  }

  setMuted(muted: boolean): void {
    if (this.#audio) this.#audio.capture.muted = muted;
    this.patch({ muted } as Partial<State>);
  }

  /** Switches to another microphone or file and closes the old one. */
  async setSource(source: AudioSource): Promise<void> {
    await this.#audio?.replaceSource(source);
    if (this.state.value.phase === "active") await source.start();
    this.patch({ sourceEnded: false } as Partial<State>);
  }

  /** Subscribes to the audio engine and opens the connection. */
  protected abstract connect(audio: AudioEngine): ProtocolClient<Server, Client>;
  protected abstract onChunk(chunk: Samples): void;

  protected override release(): void {
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
