import { html, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { devices } from "../audio/audio-settings.ts";
import {
  MICROPHONE_DEFAULTS,
  type MicrophoneOptions,
  microphoneConstraints,
} from "../audio/capture.ts";
import { decodeAudioFile, type Samples } from "../audio/pcm.ts";
import { common } from "../i18n/common.ts";
import { formatClock } from "../i18n/language.ts";
import { openStream } from "../media/open-stream.ts";
import { BaseElement } from "../ui/base-element.ts";
import { loudnessShare, meter } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import { stopAudio } from "./audio-playback.ts";
import { deviceErrorText } from "./device-select.ts";
import "./components.css";

/** Records the microphone until it is stopped. Created by `recordMicrophone`. */
export class MicrophoneRecorder {
  readonly stream: MediaStream;
  readonly #recorder: MediaRecorder;
  readonly #pieces: Blob[] = [];
  /** The recorder stops by itself when the device disappears. */
  readonly #stopped: Promise<void>;

  constructor(stream: MediaStream) {
    this.stream = stream;
    this.#recorder = new MediaRecorder(stream);
    this.#recorder.ondataavailable = ({ data }) => this.#pieces.push(data);
    this.#stopped = new Promise((resolve) => {
      this.#recorder.onstop = () => resolve();
    });
    this.#recorder.start();
  }

  /** Resolves to the audio in the format of the browser's recorder. */
  async stop(): Promise<Blob> {
    this.cancel();
    await this.#stopped;
    return new Blob(this.#pieces, { type: this.#recorder.mimeType });
  }

  cancel(): void {
    if (this.#recorder.state !== "inactive") this.#recorder.stop();
    for (const track of this.stream.getTracks()) track.stop();
  }
}

/** Voice samples need the unprocessed signal. */
const AS_IT_IS = { echoCancellation: false, noiseSuppression: false, autoGainControl: true };

/** Records the default microphone if the selected one is not connected. Rejects with the browser's DOMException. */
export async function recordMicrophone(
  options: Omit<MicrophoneOptions, "deviceId"> = AS_IT_IS,
): Promise<MicrophoneRecorder> {
  const stream = await openStream(devices.value.microphone ?? undefined, (deviceId) => ({
    audio: microphoneConstraints({ ...options, deviceId }),
  }));
  return new MicrophoneRecorder(stream);
}

const TICK_MS = 100;
const SHORTEST_S = 0.3;

/**
 * Records the microphone while it is in the document.
 *
 * @fires recorded - Samples at 16 kHz
 * @fires discard - nothing was recorded, or the user discarded it
 */
@customElement("an-audio-recorder")
export class AudioRecorder extends BaseElement {
  #recorder: MicrophoneRecorder | null = null;
  #probe: LevelMeter | null = null;
  #timer = 0;
  #began = 0;

  /** Maximum length. Recording stops when it is reached. */
  @property({ type: Number }) longestS = 120;

  /** A key is held while it records: it has no button to keep the recording, and takes no focus. */
  @property({ type: Boolean }) held = false;

  @state() private seconds = 0;
  @state() private level = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#start();
  }

  override disconnectedCallback(): void {
    this.#release();
    super.disconnectedCallback();
  }

  protected override firstUpdated(): void {
    if (this.held) return;
    this.querySelector<HTMLElement>(".primary")?.focus();
  }

  protected override render(): TemplateResult {
    const { recorder } = common();
    return html`<span class="dot" aria-hidden="true"></span>
      <span class="small number" role="timer" aria-label=${recorder.recording(formatClock(this.seconds))}>
        ${formatClock(this.seconds)}
      </span>
      ${meter(recorder.level, this.level)}
      ${this.held ? html`<span class="small soft" role="status">${recorder.release}</span>` : this.#buttons()}`;
  }

  #buttons(): TemplateResult {
    const { recorder } = common();
    return html`<button
        class="button quiet square"
        type="button"
        aria-label=${recorder.discard}
        @click=${() => this.emit("discard", null)}
      >
        ${icon("trash")}
      </button>
      <button
        class="button square primary"
        type="button"
        aria-label=${recorder.keep}
        @click=${() => this.finish()}
      >
        ${icon("check")}
      </button>`;
  }

  /** Stops and emits the recording. Discards it if the microphone is not open yet, or if nothing was recorded. */
  async finish(): Promise<void> {
    const recorder = this.#recorder;
    this.#recorder = null;
    if (this.#began === 0) this.emit("discard", null);
    if (recorder === null) return;
    const audio = await recorder.stop();
    const samples = this.seconds < SHORTEST_S ? null : await this.#decoded(audio);
    if (samples === null) this.emit("discard", null);
    else this.emit<Samples>("recorded", samples);
  }

  async #decoded(audio: Blob): Promise<Samples | null> {
    try {
      return await decodeAudioFile(audio);
    } catch {
      toast({ tone: "danger", title: common().recorder.unreadable });
      return null;
    }
  }

  async #start(): Promise<void> {
    stopAudio();
    const { noiseSuppression } = devices.value;
    try {
      const recorder = await recordMicrophone({
        ...MICROPHONE_DEFAULTS,
        noiseSuppression,
        autoGainControl: true,
      });
      if (!this.isConnected) {
        recorder.cancel();
        return;
      }
      this.#recorder = recorder;
      this.#probe = new LevelMeter(recorder.stream);
      this.#began = performance.now();
      this.#timer = window.setInterval(() => this.#tick(), TICK_MS);
    } catch (error) {
      toast({
        tone: "danger",
        title: common().deviceCheck.unusable,
        remedy: deviceErrorText(error, "microphone"),
      });
      this.emit("discard", null);
    }
  }

  #tick(): void {
    this.seconds = (performance.now() - this.#began) / 1000;
    this.level = loudnessShare(this.#probe?.peakDb ?? -Infinity);
    if (this.seconds >= this.longestS) void this.finish();
  }

  #release(): void {
    clearInterval(this.#timer);
    this.#recorder?.cancel();
    this.#probe?.close();
    this.#recorder = this.#probe = null;
  }
}

/** Measures the level of a stream. Create it in a user gesture. */
class LevelMeter {
  readonly #context = new AudioContext();
  readonly #analyser: AnalyserNode;
  readonly #samples: Float32Array<ArrayBuffer>;

  constructor(stream: MediaStream) {
    this.#analyser = new AnalyserNode(this.#context, { fftSize: 2048 });
    this.#samples = new Float32Array(this.#analyser.fftSize);
    this.#context.createMediaStreamSource(stream).connect(this.#analyser);
  }

  /** Highest sample of the last 40 ms, dBFS. */
  get peakDb(): number {
    this.#analyser.getFloatTimeDomainData(this.#samples);
    const peak = this.#samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    return 20 * Math.log10(peak);
  }

  close(): void {
    void this.#context.close();
  }
}
