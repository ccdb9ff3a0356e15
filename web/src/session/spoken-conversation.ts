import { AudioDesk, type DeskOptions } from "../audio/audio-desk.ts";
import type { AudioSource } from "../audio/audio-source.ts";
import type { Samples } from "../audio/pcm.ts";
import type { ClientOptions } from "../protocol/clients.ts";
import type { ProtocolClient } from "../protocol/protocol-client.ts";
import { Conversation } from "./conversation.ts";
import type { ConversationState } from "./conversation-state.ts";

/** What every spoken conversation is told. */
export interface SpokenSettings {
  desk?: DeskOptions;
  /** Key and server; see `socketProtocols()`. */
  connection?: ClientOptions;
}

export interface SpokenState extends ConversationState {
  readonly muted: boolean;
  /** The file was played, or the microphone unplugged; chunks of silence go on. */
  readonly sourceEnded: boolean;
}

/** A conversation with a microphone and a speaker. `start` on a user's gesture, once. */
export abstract class SpokenConversation<
  State extends SpokenState,
  Server extends { readonly type: string },
  Client extends object,
> extends Conversation<State, Server, Client> {
  readonly #options: DeskOptions;
  #desk: AudioDesk | undefined;

  constructor(initial: State, options: DeskOptions) {
    super(initial);
    this.#options = options;
  }

  /** For the mixer, devices and recorders; undefined before the microphone is open and after the end. */
  get desk(): AudioDesk | undefined {
    return this.#desk;
  }

  /** Never rejects: what goes wrong is the `ending`. */
  async start(): Promise<void> {
    this.patch({ phase: "opening" });
    try {
      this.#desk = await AudioDesk.open(this.#options);
    } catch (cause) {
      const code = cause instanceof Error ? cause.name : "unknown";
      this.end({ by: "device", code, message: String(cause), cause });
      return;
    }
    if (this.state.value.phase === "opening") this.#begin(this.#desk);
    else this.release();
  }

  setMuted(muted: boolean): void {
    if (this.#desk) this.#desk.capture.muted = muted;
    this.patch({ muted } as Partial<State>);
  }

  /** Another microphone, or a file, from now on. The old source is closed. */
  async setSource(source: AudioSource): Promise<void> {
    await this.#desk?.replaceSource(source);
    if (this.state.value.phase === "active") await source.start();
    this.patch({ sourceEnded: false } as Partial<State>);
  }

  /** The desk is there: listen to it, and open the connection. */
  protected abstract connect(desk: AudioDesk): ProtocolClient<Server, Client>;
  protected abstract heard(chunk: Samples): void;

  protected override release(): void {
    const desk = this.#desk;
    this.#desk = undefined;
    desk?.player.flush();
    void desk?.close();
  }

  #begin(desk: AudioDesk): void {
    desk.on("chunk", (chunk) => this.heard(chunk));
    desk.on("levels", (levels) => this.emit("levels", levels));
    desk.on("sourceEnd", () => this.patch({ sourceEnded: true } as Partial<State>));
    this.emit("desk", desk);
    this.attach(this.connect(desk));
  }
}
