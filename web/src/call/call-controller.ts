import { socketProtocols } from "../api/http.ts";
import type { Levels } from "../audio/audio-engine.ts";
import { applyMixer, devices, selectedDevices } from "../audio/audio-settings.ts";
import { type MediaFile, openMicrophone } from "../audio/capture.ts";
import { chimeInQueue } from "../audio/chimes.ts";
import { namedVoice } from "../components/named-voice.ts";
import { voiceFields } from "../components/voice-list.ts";
import { DuplexSession, type DuplexSessionState, NEW_DUPLEX } from "../session/duplex-session.ts";
import type { Phase, Problem } from "../session/session.ts";
import { SPEECH_LOST } from "../session/voice-session.ts";
import { clonesVoices, possibleGreeting } from "../shell/capabilities.ts";
import { Store, TypedEvents } from "../state/store.ts";
import { keepConversation } from "../storage/conversations.ts";
import { EventLog, UnitHistory } from "./call-log.ts";
import { CallCamera, CallRecorder, type CallRecordings, NO_CALL_RECORDINGS } from "./call-media.ts";
import {
  type CallKind,
  type CallValues,
  prepareFields,
  suggestedDelayMs,
} from "./call-settings.ts";
import { InputCheck, type InputProblem, pendingSince } from "./call-status.ts";

export interface CallState {
  /** State of the current or the last call. */
  readonly sessionState: DuplexSessionState;
  /** Start and end of the active call by `performance.now()`. */
  readonly since: number | null;
  readonly until: number | null;
  /** When the user said what the model has not answered yet. */
  readonly pending: number | null;
  /** Why the call began without a camera: the browser's error, or null. */
  readonly cameraError: unknown;
  /** What is wrong with the sound of the microphone. */
  readonly inputProblem: InputProblem | null;
  /** Whether the server may record the call. */
  readonly recorded: boolean;
  /** Recordings of this browser, available after the end. */
  readonly recordings: CallRecordings;
  /** The file that replaces the microphone. */
  readonly file: MediaFile | null;
  /** Whether the user hears the file. */
  readonly monitored: boolean;
}

const NEW_CALL: CallState = {
  sessionState: NEW_DUPLEX,
  since: null,
  until: null,
  pending: null,
  cameraError: null,
  inputProblem: null,
  recorded: true,
  recordings: NO_CALL_RECORDINGS,
  file: null,
  monitored: true,
};

/** What a call starts with. `file` replaces the microphone. */
export interface CallInput {
  readonly values: CallValues;
  readonly file: MediaFile | null;
}

const MONITOR_GAIN = 0.5;

interface CallEvents {
  levels: Levels;
  /** A problem that does not end the call. */
  problem: Problem;
  /**
   * The camera could not be opened. The value is the browser's error. The call continues without
   * video.
   */
  cameraError: unknown;
  /** The browser cannot record the video. The value is its error. The call continues. */
  filmError: unknown;
  /** The connection was lost and is restored. */
  resumed: undefined;
}

/**
 * Runs calls, one at a time: the session with camera, recorder, queue chimes and wake lock. No
 * DOM.
 */
export class CallController extends TypedEvents<CallEvents> {
  readonly state = new Store<CallState>(NEW_CALL);
  readonly camera = new CallCamera();
  #kind: CallKind = "audio";
  /** Messages of the current or the last call. */
  readonly events = new EventLog();
  #history = new UnitHistory();
  #inputCheck = new InputCheck();
  #session: DuplexSession | null = null;
  #recorder: CallRecorder | null = null;
  #attempt = 0;
  #releaseScreen: () => void = () => undefined;
  #releaseRecordings: () => void = () => undefined;

  get kind(): CallKind {
    return this.#kind;
  }

  /** Kind of the next call. It discards what is left of the last one. */
  setKind(kind: CallKind): void {
    if (kind === this.#kind) return;
    this.#kind = kind;
    this.#attempt += 1;
    this.camera.close();
    this.#reset();
  }

  /** Null before the first call. */
  get session(): DuplexSession | null {
    return this.#session;
  }

  get history(): UnitHistory {
    return this.#history;
  }

  /** The video that the model receives. */
  get videoElement(): HTMLVideoElement | undefined {
    const { file } = this.state.value;
    return file?.hasVideo ? file.element : this.camera.videoElement;
  }

  /**
   * Call it in a user gesture. Rejects with ApiError if a voice cannot be loaded, and with what
   * `input` rejects with. Then no call starts.
   */
  async start(input: () => Promise<CallInput>): Promise<void> {
    this.#reset();
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.#patch({ sessionState: { ...NEW_DUPLEX, phase: "opening" } });
    try {
      const { values, file } = await input();
      if (attempt !== this.#attempt) {
        file?.close();
        return;
      }
      this.#patch({ file, recorded: values.record });
      const { voice: model, speech } = values;
      const voices = clonesVoices() ? await voiceFields({ model, speech }) : {};
      if (attempt !== this.#attempt) return;
      const films = this.kind === "omni" && !file?.hasVideo;
      const cameraError = films ? await this.#openCamera(values) : null;
      if (attempt !== this.#attempt) return;
      this.#patch({ cameraError });
      await this.#begin(values, prepareFields(this.kind, values, voices));
      if (cameraError !== null && this.#isConnecting(attempt))
        this.emit("cameraError", cameraError);
    } catch (error) {
      if (attempt === this.#attempt) this.#cancel();
      throw error;
    }
  }

  endCall(): void {
    if (this.#session) this.#session.stop();
    else if (this.state.value.sessionState.phase === "opening") this.#cancel();
  }

  /** Opens or switches the camera. */
  async openCamera(values: Pick<CallValues, "facing">): Promise<void> {
    const error = await this.#openCamera(values);
    if (error !== null) this.emit("cameraError", error);
    this.#session?.setVideoElement(this.videoElement);
  }

  closeCamera(): void {
    this.camera.close();
    this.#session?.setVideoElement(undefined);
  }

  /** Replaces the current microphone or file by the microphone selected in `an-device-select`. */
  async switchToMicrophone(): Promise<void> {
    const session = this.#session;
    const microphone = await openMicrophone(selectedDevices().microphone);
    if (session === null || session !== this.#session) {
      microphone.close(); // the call has ended
      return;
    }
    await session.setSource(microphone);
    if (session.audio) applyMixer(session.audio);
    this.#inputCheck = new InputCheck();
    this.#patch({ file: null, inputProblem: null });
  }

  /** Sets whether the user hears the file. */
  monitor(monitored: boolean): void {
    this.#patch({ monitored });
    this.state.value.file?.setMonitor(monitored ? MONITOR_GAIN : 0);
  }

  /** Whether the call of this attempt goes on, with a microphone. */
  #isConnecting(attempt: number): boolean {
    const isOver = this.#session === null || this.state.value.sessionState.phase === "ended";
    return attempt === this.#attempt && !isOver;
  }

  /** Resolves to the browser's error, or null. */
  async #openCamera({ facing }: Pick<CallValues, "facing">): Promise<unknown> {
    try {
      await this.camera.open({ facing, deviceId: devices.value.camera ?? undefined });
      return null;
    } catch (error) {
      return error;
    }
  }

  async #begin(values: CallValues, prepare: ReturnType<typeof prepareFields>): Promise<void> {
    const { file } = this.state.value;
    const session = new DuplexSession({
      kind: this.kind,
      prepare,
      voice: namedVoice,
      greeting: () => possibleGreeting(file === null ? values.greeting : ""),
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
    this.#inputCheck = new InputCheck();
    this.events.clear();
    this.#subscribe(session, values);
    await session.start();
  }

  #subscribe(session: DuplexSession, { keep, record }: CallValues): void {
    keepConversation(session.state, `${this.kind}_duplex`, record);
    session.on("audio", (audio) => {
      applyMixer(audio);
      this.monitor(this.state.value.monitored);
      audio.on("sourceSilence", (silent) => {
        this.#inputCheck.deviceSilent = silent;
      });
      this.#recorder = new CallRecorder(audio, {
        conversation: session.state.value.sessionId,
        audio: keep !== "none",
        video: keep === "film" && this.kind === "omni",
        videoElement: () => this.videoElement,
        caption: () => lastWords(this.state.value.sessionState),
        onFilmError: (error) => this.emit("filmError", error),
      });
    });
    session.on("levels", (levels) => {
      this.emit("levels", levels);
      this.#checkInput(levels);
    });
    session.on("exchange", (exchange) => this.events.push(exchange));
    session.on("problem", (problem) => {
      if (problem.code === SPEECH_LOST) this.#patch({ pending: null });
      this.emit("problem", problem);
    });
    session.on("unit", (unit) => this.#history.push(unit, session.state.value.metrics));
    session.state.subscribe((sessionState) => {
      if (session === this.#session) this.#onSessionState(sessionState);
    });
    this.#releaseScreen = keepScreenOn();
  }

  #onSessionState(sessionState: DuplexSessionState): void {
    const before = this.state.value.sessionState;
    const pending = pendingSince(before, sessionState, this.state.value.pending, performance.now());
    this.#patch({ sessionState, pending });
    chimeInQueue(before, sessionState);
    if (before.connection.state === "reconnecting" && sessionState.connection.state === "open") {
      this.emit("resumed", undefined);
    }
    if (sessionState.phase !== before.phase) this.#onPhase(sessionState.phase);
  }

  #checkInput({ user, model }: Levels): void {
    const { sessionState, file, inputProblem } = this.state.value;
    if (sessionState.phase !== "active" || sessionState.muted || file !== null) return;
    const found = this.#inputCheck.push(user.peak, model.peak);
    if (found !== inputProblem) this.#patch({ inputProblem: found });
  }

  #onPhase(phase: Phase): void {
    if (phase === "active") this.#onActive();
    else this.#recorder?.pause();
    if (phase === "ended") void this.#finish();
  }

  #onActive(): void {
    this.#recorder?.start();
    this.#patch({ since: this.state.value.since ?? performance.now() });
  }

  async #finish(): Promise<void> {
    const [session, recorder] = [this.#session, this.#recorder];
    this.#recorder = null;
    this.#releaseRecordings = () => recorder?.release();
    this.#releaseScreen();
    if (this.#neverStarted) this.#reset();
    else this.#patch({ until: performance.now() });
    const finished = recorder?.finish(); // finish while the sources still run
    this.camera.close();
    const recordings = await finished;
    if (recordings && session === this.#session) this.#patch({ recordings });
  }

  /** Cancels a call that has no session yet. */
  #cancel(): void {
    this.#attempt += 1;
    this.state.value.file?.close();
    this.camera.close();
    this.#reset();
  }

  #reset(): void {
    this.#session = null;
    this.#releaseRecordings();
    this.state.set({ ...NEW_CALL, monitored: this.state.value.monitored });
  }

  /** The user cancelled before the call became active. */
  get #neverStarted(): boolean {
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

/**
 * Keeps the screen on, because a sleeping phone stops the microphone. Returns a function that
 * releases the lock.
 */
function keepScreenOn(): () => void {
  let wanted = true;
  let lock: WakeLockSentinel | null = null;
  const ask = async (): Promise<void> => {
    if (!wanted || document.hidden) return;
    try {
      lock = await navigator.wakeLock.request("screen");
    } catch {
      return; // denied or not supported: the screen may turn off
    }
    if (!wanted) await lock.release();
  };
  const seen = (): void => void ask();
  document.addEventListener("visibilitychange", seen);
  void ask();
  return () => {
    wanted = false;
    document.removeEventListener("visibilitychange", seen);
    void lock?.release();
  };
}
