import { AudioEngine, type AudioEngineOptions } from "../audio/audio-engine.ts";
import type { AudioSource } from "../audio/capture.ts";
import { EarlySound } from "../audio/early-sound.ts";
import type { Samples } from "../audio/pcm.ts";
import type { ClientOptions, ProtocolClient } from "../protocol/clients.ts";
import type { ErrorMessage } from "../protocol/server-messages.ts";
import { Session, type SessionEnd, type SessionState } from "./session.ts";

/** The recorder gets what was played in blocks, a little later. */
const LAST_BLOCKS_MS = 100;

/** A command without an answer in this time may have been sent into a dead connection. */
const ANSWER_MS = 4000;

/** `code` of the problem that the user spoke while the connection was lost, and was not heard. */
export const SPEECH_LOST = "speech_lost";

/** The command that a message of the server answers. */
const ANSWERS: Readonly<Record<string, string>> = {
  prepared: "prepare",
  paused: "pause",
  resumed: "resume",
};

/** Codes of the answer to a command that the server had carried out before. */
const REPEATED_CODES: ReadonlySet<string> = new Set(["paused", "not_ready"]);

/** A command whose answer has not arrived. */
interface Asked<Client> {
  readonly message: Client;
  /** It waits for a connection, which sends it. */
  readonly waits: boolean;
}

/** Options that all voice sessions share. */
export interface VoiceSessionOptions {
  audio?: AudioEngineOptions;
  /** Key and server, see `socketProtocols()`. */
  connection?: ClientOptions;
  /**
   * What the model says first. Empty: it waits for the user. It is read when the session has a
   * worker, because a client may wait before any worker runs that can say what it does. If it
   * rejects, the session goes on without it, after a `problem`.
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
  return { by: "connection", code: "not_opened", message: messageOf(cause), cause };
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** A session with a microphone and a speaker. Call `start` once, in a user gesture. */
export abstract class VoiceSession<
  State extends VoiceSessionState,
  Server extends { readonly type: string },
  Client extends { readonly type: string },
> extends Session<State, Server, Client> {
  readonly #options: AudioEngineOptions;
  readonly #greeting: () => Promise<string>;
  readonly #voice: () => Promise<string | undefined>;
  #audio: AudioEngine | undefined;
  #late: LateConfig = {};
  #leaving: ReturnType<typeof setTimeout> | undefined;
  readonly #early = new EarlySound();
  #asked: Asked<Client> | null = null;
  /** Messages with the user's speech that wait for the connection. */
  #speech = new WeakSet<object>();
  #speechLost = false;
  /** The server may refuse a command because it has carried it out before. */
  #repeated = false;
  #answerTimer: ReturnType<typeof setTimeout> | undefined;

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
    if (this.state.value.muted) this.#audio.capture.muted = true;
    try {
      this.#connect(this.#audio);
    } catch (cause) {
      this.end(notOpened(cause));
    }
  }

  setMuted(muted: boolean): void {
    if (this.#audio) this.#audio.capture.muted = muted;
    if (muted) this.#early.clear();
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

  /** The session is active: starts chunks, first with what the user said while it was prepared. */
  protected startAudio(chunkSamples?: number): void {
    void this.#audio?.start(chunkSamples, this.#early.take());
  }

  /** A worker is assigned. Sends `prepare`, unless the user leaves before. */
  protected async prepare(): Promise<void> {
    if (!this.onWorkerAssigned()) return;
    const greeting = await this.#read("greeting", this.#greeting);
    const voice = await this.#read("voice", this.#voice);
    if (this.state.value.phase !== "preparing") return;
    this.#late = { ...(greeting && { greeting }), ...(voice && { voice }) };
    this.ask(this.prepareMessage(this.#late));
  }

  async #read(
    name: keyof LateConfig,
    option: () => Promise<string | undefined>,
  ): Promise<string | undefined> {
    try {
      return await option();
    } catch (cause) {
      this.emit("problem", { code: `${name}_failed`, message: messageOf(cause) });
      return undefined;
    }
  }

  /** Sends a command. If the connection is lost before the answer, the next connection repeats it. */
  protected ask(message: Client): void {
    this.#asked = { message, waits: this.client.connection !== "open" };
    this.client.send(message);
  }

  /** Like `ask`, for a command that the server answers at once: without an answer, it reconnects. */
  protected askWatched(message: Client): void {
    this.ask(message);
    const asked = this.#asked;
    clearTimeout(this.#answerTimer);
    this.#answerTimer = setTimeout(() => {
      if (asked === this.#asked) this.client.reconnect();
    }, ANSWER_MS);
  }

  /** If the engine cannot greet, the model waits for the user. */
  protected override onError(error: ErrorMessage): void {
    if (this.#repeated && REPEATED_CODES.has(error.code) && !error.retryable) {
      this.#repeated = false;
      const isPaused = error.code === "paused"; // also what a chunk before a repeated `resume` gets
      if (isPaused === (this.#asked?.message.type === "pause")) this.#asked = null;
      return;
    }
    const { greeting, ...rest } = this.#late;
    const isPreparing = this.state.value.phase === "preparing";
    if (!isPreparing || greeting === undefined || error.field !== "config.greeting") {
      super.onError(error);
      return;
    }
    this.#late = rest;
    this.ask(this.prepareMessage(rest));
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
    clearTimeout(this.#answerTimer);
    globalThis.removeEventListener?.("online", this.#onOnline);
    globalThis.removeEventListener?.("pagehide", this.#onLeave);
    const audio = this.#audio;
    this.#audio = undefined;
    audio?.player.flush();
    void audio?.close();
  }

  #connect(audio: AudioEngine): void {
    audio.on("userBlock", (block) => this.#onBlock(block, audio.userSpeaks));
    audio.on("chunk", (chunk) => this.onChunk(chunk));
    audio.on("levels", (levels) => this.emit("levels", levels));
    audio.on("sourceEnd", () => this.patch({ sourceEnded: true } as Partial<State>));
    this.emit("audio", audio);
    const client = this.connect(audio);
    this.attach(client);
    client.on("connection", (connection) => connection === "open" && this.#onConnected());
    client.on("sent", (message) => {
      if (client.connection !== "open" && audio.userSpeaks) this.#speech.add(message);
    });
    client.on("dropped", (message) => {
      this.#speechLost ||= this.#speech.has(message);
    });
    client.on("message", ({ type }) => {
      if (this.#asked?.message.type === ANSWERS[type]) this.#asked = null;
    });
    globalThis.addEventListener?.("online", this.#onOnline);
    globalThis.addEventListener?.("pagehide", this.#onLeave);
  }

  #onBlock(block: Samples, speaks: boolean): void {
    const { phase } = this.state.value;
    if (phase === "connecting" || phase === "preparing") this.#early.push(block, speaks);
    else this.#early.clear(); // the wait in the queue may be long
  }

  /** Runs before the client sends what waits for the connection. */
  #onConnected(): void {
    const { phase } = this.state.value;
    if (this.#speechLost && phase === "active") {
      this.emit("problem", { code: SPEECH_LOST, message: "" });
    }
    this.#speechLost = false;
    const asked = this.#asked;
    if (!asked || phase === "stopping") return;
    this.#asked = { ...asked, waits: false };
    this.#repeated = true;
    if (!asked.waits) this.client.send(asked.message);
  }

  /** The server would keep the session, and its worker, for a page that does not come back. */
  readonly #onLeave = (): void => this.stop();

  /** The network has changed, so that a connection that seems open may be dead. */
  readonly #onOnline = (): void => {
    this.client.retryNow();
    this.client.reconnect();
  };
}
