import { socketProtocols } from "../api/key.ts";
import type { Levels } from "../audio/audio-engine.ts";
import type { MediaFile } from "../audio/media-file.ts";
import { openMicrophone } from "../audio/microphone.ts";
import { selectedDevices } from "../components/chosen-devices.ts";
import { applyMixer } from "../components/mixer-settings.ts";
import { chimeInQueue } from "../components/queue-chimes.ts";
import { voiceFields } from "../components/voice-list.ts";
import { DuplexSession } from "../session/duplex-session.ts";
import { type DuplexSessionState, NEW_DUPLEX } from "../session/duplex-state.ts";
import type { Phase, Problem } from "../session/session-state.ts";
import { devices } from "../settings/devices.ts";
import { Store } from "../state/store.ts";
import { TypedEvents } from "../typed-events.ts";
import { CallCamera } from "./call-camera.ts";
import { suggestedDelayMs } from "./call-presets.ts";
import { CallRecorder, type CallRecordings, NO_CALL_RECORDINGS } from "./call-recorder.ts";
import { type CallKind, type CallValues, prepareFields } from "./call-settings.ts";
import { UnitHistory } from "./unit-history.ts";
import { keepScreenOn } from "./wake-lock.ts";

export interface CallState {
  /** Of the call that runs, or of the last one. */
  readonly sessionState: DuplexSessionState;
  /** When it could be spoken, and when it was over, `performance.now()`. */
  readonly since: number | null;
  readonly until: number | null;
  /** Whether the server was allowed to record it. */
  readonly recorded: boolean;
  /** What this browser has recorded; there after the end. */
  readonly recordings: CallRecordings;
  /** What plays in place of the microphone. */
  readonly file: MediaFile | null;
  /** The user hears it too. */
  readonly monitored: boolean;
}

const NEW_CALL: CallState = {
  sessionState: NEW_DUPLEX,
  since: null,
  until: null,
  recorded: true,
  recordings: NO_CALL_RECORDINGS,
  file: null,
  monitored: true,
};

const MONITOR_GAIN = 0.5;

export interface CallEvents {
  levels: Levels;
  /** The call goes on. */
  problem: Problem;
  /** The camera could not be had; what the browser threw. The call goes on without. */
  cameraError: unknown;
  /** The connection was lost, and is back. */
  resumed: undefined;
}

/** One call after the other: the session, and what a page has around it. No DOM. */
export class CallController extends TypedEvents<CallEvents> {
  readonly kind: CallKind;
  readonly state = new Store<CallState>(NEW_CALL);
  readonly camera = new CallCamera();
  #history = new UnitHistory();
  #session: DuplexSession | null = null;
  #recorder: CallRecorder | null = null;
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
  get videoElement(): HTMLVideoElement | undefined {
    const { file } = this.state.value;
    return file?.hasVideo ? file.element : this.camera.videoElement;
  }

  /** On a user's gesture. Rejects with ApiError where the voices cannot be had; then there is no call. */
  async start(values: CallValues, file: MediaFile | null): Promise<void> {
    this.#forget();
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.#patch({
      sessionState: { ...NEW_DUPLEX, phase: "opening" },
      file,
      recorded: values.record,
    });
    try {
      const voices = await voiceFields({ model: values.voice, speech: values.speech });
      if (this.kind === "omni" && !file?.hasVideo) await this.look(values);
      if (attempt === this.#attempt) {
        await this.#begin(values, prepareFields(this.kind, values, voices));
      } else if (this.state.value.sessionState.phase === "idle") this.camera.close(); // it came too late
    } catch (error) {
      if (attempt === this.#attempt) this.#cancel();
      throw error;
    }
  }

  endCall(): void {
    if (this.#session) this.#session.stop();
    else if (this.state.value.sessionState.phase === "opening") this.#cancel();
  }

  /** Open the camera, or turn it. */
  async look({ facing }: Pick<CallValues, "facing">): Promise<void> {
    try {
      await this.camera.open({ facing, deviceId: devices.value.camera ?? undefined });
    } catch (error) {
      this.emit("cameraError", error);
    }
    this.#session?.setVideoElement(this.videoElement);
  }

  closeCamera(): void {
    this.camera.close();
    this.#session?.setVideoElement(undefined);
  }

  /** From now on what `an-device-select` says, in place of the microphone, or the file, of before. */
  async switchToMicrophone(): Promise<void> {
    const microphone = await openMicrophone(selectedDevices().microphone);
    await this.#session?.setSource(microphone);
    if (this.#session?.audio) applyMixer(this.#session.audio);
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
      videoElement: this.videoElement,
      bargeIn: values.bargeIn,
      connection: { protocols: socketProtocols() },
      audio: {
        ...selectedDevices(),
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
    session.on("audio", (audio) => {
      applyMixer(audio);
      this.monitor(this.state.value.monitored);
      this.#recorder = new CallRecorder(audio, {
        sound: keep !== "none",
        video: keep === "film" && this.kind === "omni",
        videoElement: () => this.videoElement,
        caption: () => lastWords(this.state.value.sessionState),
      });
    });
    session.on("levels", (levels) => this.emit("levels", levels));
    session.on("problem", (problem) => this.emit("problem", problem));
    session.on("unit", (unit) => this.#history.push(unit, session.state.value.metrics));
    session.state.subscribe((sessionState) => {
      if (session === this.#session) this.#changed(sessionState);
    });
    this.#mayRest = keepScreenOn();
  }

  #changed(sessionState: DuplexSessionState): void {
    const before = this.state.value.sessionState;
    this.#patch({ sessionState });
    chimeInQueue(before, sessionState);
    if (before.connection.state === "reconnecting" && sessionState.connection.state === "open") {
      this.emit("resumed", undefined);
    }
    if (sessionState.phase !== before.phase) this.#entered(sessionState.phase);
  }

  #entered(phase: Phase): void {
    if (phase === "active") this.#running();
    else this.#recorder?.rest();
    if (phase === "ended") void this.#over();
  }

  #running(): void {
    this.#recorder?.go();
    this.#patch({ since: this.state.value.since ?? performance.now() });
  }

  async #over(): Promise<void> {
    const [session, recorder] = [this.#session, this.#recorder];
    this.#recorder = null;
    this.#mayRest();
    if (this.#cameToNothing) this.#forget();
    else this.#patch({ until: performance.now() });
    const finished = recorder?.finish(); // now, while what it records is there
    this.camera.close();
    const recordings = await finished;
    if (recordings && session === this.#session) this.#patch({ recordings });
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
    const { since, sessionState } = this.state.value;
    return since === null && sessionState.end?.by === "user";
  }

  #patch(change: Partial<CallState>): void {
    this.state.set({ ...this.state.value, ...change });
  }
}

function lastWords({ transcript }: DuplexSessionState): string {
  const last = transcript.at(-1);
  return last?.role === "model" && !last.done ? last.text : "";
}
