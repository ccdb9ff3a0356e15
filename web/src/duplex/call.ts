import { socketProtocols } from "../api/key.ts";
import type { Levels } from "../audio/audio-desk.ts";
import type { MediaFile } from "../audio/media-file.ts";
import { openMicrophone } from "../audio/microphone.ts";
import { chosenDevices } from "../components/chosen-devices.ts";
import { applyMixer } from "../components/mixer-settings.ts";
import { chimeInQueue } from "../components/queue-chimes.ts";
import { voiceFields } from "../components/voice-shelf.ts";
import type { Phase, Problem } from "../session/conversation-state.ts";
import { DuplexSession } from "../session/duplex-session.ts";
import { type DuplexState, NEW_DUPLEX } from "../session/duplex-state.ts";
import { devices } from "../settings/devices.ts";
import { Store } from "../state/store.ts";
import { TypedEvents } from "../typed-events.ts";
import { CallCamera } from "./call-camera.ts";
import { suggestedDelayMs } from "./call-presets.ts";
import { type CallKind, type CallValues, prepareFields } from "./call-settings.ts";
import { Keepsake, NO_TAKES, type Takes } from "./keepsake.ts";
import { stayAwake } from "./stay-awake.ts";
import { UnitHistory } from "./unit-history.ts";

export interface CallState {
  /** Of the call that runs, or of the last one. */
  readonly talk: DuplexState;
  /** When it could be spoken, and when it was over, `performance.now()`. */
  readonly since: number | null;
  readonly until: number | null;
  /** Whether the server was allowed to record it. */
  readonly recorded: boolean;
  /** What this browser has recorded; there after the end. */
  readonly takes: Takes;
  /** What plays in place of the microphone. */
  readonly file: MediaFile | null;
  /** The user hears it too. */
  readonly monitored: boolean;
}

const NEW_CALL: CallState = {
  talk: NEW_DUPLEX,
  since: null,
  until: null,
  recorded: true,
  takes: NO_TAKES,
  file: null,
  monitored: true,
};

const MONITOR_GAIN = 0.5;

export interface CallEvents {
  levels: Levels;
  /** The call goes on. */
  problem: Problem;
  /** The camera could not be had; what the browser threw. The call goes on without. */
  blind: unknown;
  /** The connection was lost, and is back. */
  resumed: undefined;
}

/** One call after the other: the session, and what a page has around it. No DOM. */
export class Call extends TypedEvents<CallEvents> {
  readonly kind: CallKind;
  readonly state = new Store<CallState>(NEW_CALL);
  readonly camera = new CallCamera();
  #history = new UnitHistory();
  #session: DuplexSession | null = null;
  #keepsake: Keepsake | null = null;
  #attempt = 0;
  #mayRest: () => void = () => undefined;

  constructor(kind: CallKind) {
    super();
    this.kind = kind;
  }

  /** Undefined before the first call. */
  get session(): DuplexSession | null {
    return this.#session;
  }

  get history(): UnitHistory {
    return this.#history;
  }

  /** What the model is shown. */
  get picture(): HTMLVideoElement | undefined {
    const { file } = this.state.value;
    return file?.hasPicture ? file.element : this.camera.picture;
  }

  /** On a user's gesture. Rejects with ApiError where the voices cannot be had; then there is no call. */
  async start(values: CallValues, file: MediaFile | null): Promise<void> {
    this.#forget();
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.#patch({ talk: { ...NEW_DUPLEX, phase: "opening" }, file, recorded: values.record });
    try {
      const voices = await voiceFields({ model: values.voice, speech: values.speech });
      if (this.kind === "omni" && !file?.hasPicture) await this.look(values);
      if (attempt === this.#attempt) {
        await this.#begin(values, prepareFields(this.kind, values, voices));
      } else if (this.state.value.talk.phase === "idle") this.camera.close(); // it came too late
    } catch (error) {
      if (attempt === this.#attempt) this.#cancel();
      throw error;
    }
  }

  hangUp(): void {
    if (this.#session) this.#session.stop();
    else if (this.state.value.talk.phase === "opening") this.#cancel();
  }

  /** Open the camera, or turn it. */
  async look({ facing }: Pick<CallValues, "facing">): Promise<void> {
    try {
      await this.camera.open({ facing, deviceId: devices.value.camera ?? undefined });
    } catch (error) {
      this.emit("blind", error);
    }
    this.#session?.setPicture(this.picture);
  }

  lookAway(): void {
    this.camera.close();
    this.#session?.setPicture(undefined);
  }

  /** From now on what `an-device-choice` says, in place of the microphone, or the file, of before. */
  async hearMicrophone(): Promise<void> {
    const microphone = await openMicrophone(chosenDevices().microphone);
    await this.#session?.setSource(microphone);
    if (this.#session?.desk) applyMixer(this.#session.desk);
    this.#patch({ file: null });
  }

  /** Let the user hear the file too, or not. */
  monitor(monitored: boolean): void {
    this.#patch({ monitored });
    this.state.value.file?.setMonitor(monitored ? MONITOR_GAIN : 0);
  }

  async #begin(values: CallValues, prepare: ReturnType<typeof prepareFields>): Promise<void> {
    const { file } = this.state.value;
    const session = new DuplexSession({
      kind: this.kind,
      prepare,
      picture: this.picture,
      bargeIn: values.bargeIn,
      connection: { protocols: socketProtocols() },
      desk: {
        ...chosenDevices(),
        source: file ?? undefined,
        delayMs: values.delayMs ?? suggestedDelayMs.value,
      },
    });
    this.#session = session;
    this.#history = new UnitHistory();
    this.#follow(session, values);
    await session.start();
  }

  #follow(session: DuplexSession, { keep }: CallValues): void {
    session.on("desk", (desk) => {
      applyMixer(desk);
      this.monitor(this.state.value.monitored);
      this.#keepsake = new Keepsake(desk, {
        sound: keep !== "none",
        film: keep === "film" && this.kind === "omni",
        picture: () => this.picture,
        caption: () => lastWords(this.state.value.talk),
      });
    });
    session.on("levels", (levels) => this.emit("levels", levels));
    session.on("problem", (problem) => this.emit("problem", problem));
    session.on("unit", (unit) => this.#history.push(unit, session.state.value.metrics));
    session.state.subscribe((talk) => {
      if (session === this.#session) this.#changed(talk);
    });
    this.#mayRest = stayAwake();
  }

  #changed(talk: DuplexState): void {
    const before = this.state.value.talk;
    this.#patch({ talk });
    chimeInQueue(before, talk);
    if (before.link.state === "reconnecting" && talk.link.state === "open") {
      this.emit("resumed", undefined);
    }
    if (talk.phase !== before.phase) this.#entered(talk.phase);
  }

  #entered(phase: Phase): void {
    if (phase === "active") this.#running();
    else this.#keepsake?.rest();
    if (phase === "ended") void this.#over();
  }

  #running(): void {
    this.#keepsake?.go();
    this.#patch({ since: this.state.value.since ?? performance.now() });
  }

  async #over(): Promise<void> {
    const [session, keepsake] = [this.#session, this.#keepsake];
    this.#keepsake = null;
    this.#mayRest();
    if (this.#cameToNothing) this.#forget();
    else this.#patch({ until: performance.now() });
    const finished = keepsake?.finish(); // now, while what it records is there
    this.camera.close();
    const takes = await finished;
    if (takes && session === this.#session) this.#patch({ takes });
  }

  /** Before there is a session. */
  #cancel(): void {
    this.#attempt += 1;
    this.state.value.file?.close();
    this.camera.close();
    this.#forget();
  }

  #forget(): void {
    this.#session = null;
    this.state.set({ ...NEW_CALL, monitored: this.state.value.monitored });
  }

  /** The user left before there was anything to speak of. */
  get #cameToNothing(): boolean {
    const { since, talk } = this.state.value;
    return since === null && talk.ending?.by === "user";
  }

  #patch(change: Partial<CallState>): void {
    this.state.set({ ...this.state.value, ...change });
  }
}

function lastWords({ transcript }: DuplexState): string {
  const last = transcript.at(-1);
  return last?.role === "model" && !last.done ? last.text : "";
}
