import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { INPUT_RATE, type Samples } from "../audio/pcm.ts";
import { common } from "../i18n/common.ts";
import { formatClock, formatNumber } from "../i18n/format.ts";
import { showError } from "../shell/errors.ts";
import { BaseElement, freshId } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import { decodeAudioFile, UnreadableAudio } from "./audio-file.ts";
import { type MicrophoneRecorder, recordMicrophone } from "./audio-recorder.ts";
import { deviceErrorText } from "./device-select.ts";
import { addVoice } from "./voice-list.ts";

const SHORTEST_S = 1;
const LONGEST_S = 30;

/**
 * Adds a voice to the server from a file or from the microphone.
 *
 * @fires added - id of the new voice
 */
@customElement("an-voice-upload")
export class VoiceUpload extends BaseElement {
  readonly #id = freshId("voice-name");
  #recorder: MicrophoneRecorder | null = null;
  #timer = 0;

  @state() private samples: Samples | null = null;
  @state() private name = "";
  @state() private recordedS: number | null = null;
  @state() private problem = "";
  @state() private busy = false;

  override disconnectedCallback(): void {
    this.#recorder?.cancel();
    clearInterval(this.#timer);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const { voices } = common();
    return html`<div class="stack">
      <p class="small soft">${voices.hint}</p>
      <div class="row">${this.recordedS === null ? this.#sources() : this.#stopButton(this.recordedS)}</div>
      ${this.problem === "" ? nothing : html`<p class="small problem" role="alert">${this.problem}</p>`}
      ${this.samples ? this.#form(this.samples) : nothing}
    </div>`;
  }

  #sources(): TemplateResult {
    const { voices } = common();
    return html`<label class="button" for="${this.#id}-file">${icon("upload")} ${voices.upload}</label>
      <input
        id="${this.#id}-file"
        class="visually-hidden"
        type="file"
        accept="audio/*"
        @change=${(event: Event) => this.#take(event.target as HTMLInputElement)}
      />
      <button class="button" @click=${this.#record}>${icon("mic")} ${voices.record}</button>`;
  }

  #stopButton(seconds: number): TemplateResult {
    const { voices } = common();
    return html`<button class="button danger" @click=${this.#stop}>${icon("stop")} ${voices.stopRecording}</button>
      <span class="small number" role="timer">${voices.recording(formatClock(seconds))}</span>`;
  }

  #form(samples: Samples): TemplateResult {
    const { save, voices } = common();
    const seconds = formatNumber(samples.length / INPUT_RATE, 1);
    return html`<form class="stack" @submit=${(event: SubmitEvent) => this.#save(event, samples)}>
      <div class="field">
        <label for=${this.#id}>${voices.name}</label>
        <input
          class="input"
          id=${this.#id}
          required
          maxlength="80"
          pattern="[^<>]+"
          placeholder=${voices.namePlaceholder}
          .value=${this.name}
          @input=${(event: Event) => {
            this.name = (event.target as HTMLInputElement).value;
          }}
        />
        <span class="hint">${voices.seconds(seconds)}</span>
      </div>
      <div><button class="button primary" ?disabled=${this.busy}>${save}</button></div>
    </form>`;
  }

  async #take(input: HTMLInputElement): Promise<void> {
    const file = input.files?.[0];
    input.value = "";
    if (file) await this.#read(file, file.name.replace(/\.[^.]*$/, "").slice(0, 80));
  }

  async #record(): Promise<void> {
    this.problem = "";
    try {
      this.#recorder = await recordMicrophone();
    } catch (error) {
      this.problem = deviceErrorText(error, "microphone");
      return;
    }
    const began = performance.now();
    this.recordedS = 0;
    this.#timer = window.setInterval(() => {
      this.recordedS = (performance.now() - began) / 1000;
      if (this.recordedS >= LONGEST_S) void this.#stop();
    }, 250);
  }

  async #stop(): Promise<void> {
    clearInterval(this.#timer);
    this.recordedS = null;
    const recorder = this.#recorder;
    this.#recorder = null;
    if (recorder) await this.#read(await recorder.stop(), this.name);
  }

  async #read(audio: Blob, name: string): Promise<void> {
    const { voices } = common();
    this.problem = "";
    try {
      const samples = (await decodeAudioFile(audio)).slice(0, LONGEST_S * INPUT_RATE);
      const enough = samples.length >= SHORTEST_S * INPUT_RATE;
      this.samples = enough ? samples : null;
      this.problem = enough ? "" : voices.tooShort;
      this.name = name;
    } catch (error) {
      if (!(error instanceof UnreadableAudio)) throw error;
      this.problem = voices.unreadable;
    }
  }

  async #save(event: SubmitEvent, samples: Samples): Promise<void> {
    event.preventDefault();
    this.busy = true;
    try {
      const id = await addVoice(this.name.trim(), samples);
      this.samples = null;
      this.name = "";
      toast({ tone: "good", title: common().voices.saved });
      this.emit("added", id);
    } catch (error) {
      showError(error);
    } finally {
      this.busy = false;
    }
  }
}
