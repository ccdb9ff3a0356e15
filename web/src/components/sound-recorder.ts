import { html, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { MICROPHONE } from "../audio/constraints.ts";
import type { Samples } from "../audio/pcm.ts";
import { common } from "../i18n/common.ts";
import { clock } from "../i18n/format.ts";
import { devices } from "../settings/devices.ts";
import { meter } from "../ui/controls.ts";
import { Element } from "../ui/element.ts";
import { icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import { deviceProblem } from "./device-problem.ts";
import { LevelProbe } from "./level-probe.ts";
import { loudnessShare } from "./orb-shape.ts";
import { hushSounds } from "./playback.ts";
import { readSound } from "./sound-file.ts";
import "./sound-recorder.css";
import { recordVoice, type VoiceRecorder } from "./voice-recorder.ts";

const TICK_MS = 100;
const SHORTEST_S = 0.3;

/**
 * Records something said, while it is in the document.
 *
 * @fires recorded - Samples at 16 kHz
 * @fires discard - nothing was recorded, or it is not wanted
 */
@customElement("an-sound-recorder")
export class SoundRecorder extends Element {
  #recorder: VoiceRecorder | null = null;
  #probe: LevelProbe | null = null;
  #timer = 0;
  #began = 0;

  /** At most; then it is finished by itself. */
  @property({ type: Number }) longestS = 120;

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
    this.querySelector<HTMLElement>(".primary")?.focus();
  }

  protected override render(): TemplateResult {
    const { recorder } = common();
    return html`<span class="dot" aria-hidden="true"></span>
      <span class="small number" role="timer" aria-label=${recorder.recording(clock(this.seconds))}>
        ${clock(this.seconds)}
      </span>
      ${meter(recorder.level, this.level)}
      <button
        class="button quiet square"
        type="button"
        aria-label=${recorder.discard}
        @click=${() => this.tell("discard", null)}
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

  /** Stop, and hand out what was recorded. */
  async finish(): Promise<void> {
    const recorder = this.#recorder;
    this.#recorder = null;
    if (recorder === null) return;
    const sound = await recorder.stop();
    if (this.seconds < SHORTEST_S) this.tell("discard", null);
    else this.tell<Samples>("recorded", await readSound(sound));
  }

  async #start(): Promise<void> {
    hushSounds();
    const { noiseSuppression } = devices.value;
    try {
      const recorder = await recordVoice({
        ...MICROPHONE,
        noiseSuppression,
        autoGainControl: true,
      });
      if (!this.isConnected) {
        recorder.cancel();
        return;
      }
      this.#recorder = recorder;
      this.#probe = new LevelProbe(recorder.stream);
      this.#began = performance.now();
      this.#timer = window.setInterval(() => this.#tick(), TICK_MS);
    } catch (error) {
      toast({
        tone: "danger",
        title: common().preflight.unusable,
        remedy: deviceProblem(error, "microphone"),
      });
      this.tell("discard", null);
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
