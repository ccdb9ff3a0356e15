import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import type { VoiceInfo } from "../api/answers.ts";
import { decodeAudioFile, INPUT_RATE, type Samples, UnreadableAudio } from "../audio/pcm.ts";
import { common } from "../i18n/common.ts";
import { formatClock, formatNumber } from "../i18n/language.ts";
import { showError } from "../shell/errors.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement, freshId } from "../ui/base-element.ts";
import { type SelectOption, select } from "../ui/controls.ts";
import { dialog } from "../ui/dialog.ts";
import { icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { toast } from "../ui/toasts.ts";
import { type MicrophoneRecorder, recordMicrophone } from "./audio-recorder.ts";
import { deviceErrorText } from "./device-select.ts";
import {
  addVoice,
  clipOf,
  DEFAULT_VOICE,
  loadVoices,
  type PresetVoice,
  removeVoice,
  type VoiceSelection,
  voiceList,
} from "./voice-list.ts";
import {
  type Clip,
  type Preview,
  playButton,
  previewedVoice,
  stopPreview,
} from "./voice-preview.ts";
import "./components.css";

const SHORTEST_VOICE_S = 1;
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
  /** The browser asks for permission, or opens the microphone. */
  @state() private opening = false;

  override disconnectedCallback(): void {
    this.#recorder?.cancel();
    this.#recorder = null;
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
      <button class="button" ${inactive(this.opening)} @click=${this.#record}>${icon("mic")} ${voices.record}</button>`;
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
      <div>
        <button class="button primary" ${inactive(this.busy || this.name.trim() === "")}>${save}</button>
      </div>
    </form>`;
  }

  async #take(input: HTMLInputElement): Promise<void> {
    const file = input.files?.[0];
    input.value = "";
    if (file) await this.#read(file, file.name.replace(/\.[^.]*$/, "").slice(0, 80));
  }

  async #record(): Promise<void> {
    this.problem = "";
    this.opening = true;
    try {
      this.#recorder = await recordMicrophone();
    } catch (error) {
      this.problem = deviceErrorText(error, "microphone");
      return;
    } finally {
      this.opening = false;
    }
    if (!this.isConnected) {
      this.#recorder.cancel(); // the user has closed the dialog
      this.#recorder = null;
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
      const enough = samples.length >= SHORTEST_VOICE_S * INPUT_RATE;
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

type VoiceSource = VoiceInfo["source_type"];

function voicesOf(all: readonly VoiceInfo[] | null, source: VoiceSource): readonly VoiceInfo[] {
  return (all ?? []).filter(({ source_type }) => source_type === source).map(inLanguage);
}

/** Names of the server's own voices are texts of the page. */
function inLanguage(voice: VoiceInfo): VoiceInfo {
  if (voice.source_type !== "shipped") return voice;
  const names: Readonly<Record<string, string>> = common().voices.shippedNames;
  return { ...voice, name: names[voice.id] ?? voice.name };
}

/** The preview of a voice of the server, or of the voice that a preset has instead of the default one. */
function previewOf(
  { id, name }: Pick<VoiceInfo, "id" | "name">,
  presetVoice: PresetVoice | null = null,
): Preview {
  const ofPreset = id === DEFAULT_VOICE ? presetVoice : null;
  const load = async (): Promise<Clip> =>
    ofPreset ? { samples: ofPreset.samples, rate: INPUT_RATE } : clipOf(id);
  return { key: id, name, load };
}

/**
 * The voices of the server: plays them, and deletes uploaded ones.
 *
 * @fires removed - id of the deleted voice
 */
@customElement("an-voice-list")
export class VoiceList extends BaseElement {
  readonly #voiceList = new StoreController(this, voiceList);
  readonly #playing = new StoreController(this, previewedVoice);

  /** Also lists the voices that come with the server. */
  @property({ type: Boolean }) shipped = false;

  override disconnectedCallback(): void {
    stopPreview();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    return html`${this.#section("upload")} ${this.shipped ? this.#section("shipped") : nothing}`;
  }

  #section(source: VoiceSource): TemplateResult | typeof nothing {
    const { voices } = common();
    const all = voicesOf(this.#voiceList.value, source);
    if (all.length === 0) return nothing;
    return html`<section class="stack tight">
      <h3>${source === "upload" ? voices.mine : voices.shipped}</h3>
      <ul role="list" class="voices">
        ${repeat(
          all,
          ({ id }) => id,
          (voice) => this.#line(voice),
        )}
      </ul>
    </section>`;
  }

  #line(voice: VoiceInfo): TemplateResult {
    const { voices } = common();
    return html`<li class="row apart still">
      <span class="truncate">${voice.name}</span>
      <span class="row tight still">
        <span class="tiny soft number">${voices.seconds(formatNumber(voice.duration_ms / 1000, 1))}</span>
        ${playButton(previewOf(voice), this.#playing.value)}
        ${
          voice.source_type === "upload"
            ? html`<button
                class="button quiet square small"
                aria-label=${voices.remove(voice.name)}
                @click=${() => this.#remove(voice)}
              >
                ${icon("trash")}
              </button>`
            : nothing
        }
      </span>
    </li>`;
  }

  async #remove(voice: VoiceInfo): Promise<void> {
    const { voices } = common();
    if (!confirm(voices.removeAsk(voice.name))) return;
    try {
      await removeVoice(voice.id);
    } catch (error) {
      showError(error);
      return;
    }
    this.emit("removed", voice.id);
    toast({ tone: "good", title: voices.deleted });
  }
}

/**
 * Selects, previews, adds and deletes the voices of the model and of its output.
 *
 * @fires change - a VoiceSelection
 */
@customElement("an-voice-picker")
export class VoicePicker extends BaseElement {
  readonly #voiceList = new StoreController(this, voiceList);
  readonly #playing = new StoreController(this, previewedVoice);

  @property({ attribute: false }) value: VoiceSelection = { model: null, speech: null };
  /** Voice of the preset, used instead of the default voice. */
  @property({ attribute: false }) presetVoice: PresetVoice | null = null;
  @property({ type: Boolean }) disabled = false;

  @state() private open = false;

  override connectedCallback(): void {
    super.connectedCallback();
    if (voiceList.value === null) loadVoices().catch((error: unknown) => showError(error));
  }

  override disconnectedCallback(): void {
    stopPreview();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const { voices } = common();
    return html`<div class="stack">
      ${this.#choice("model", voices.model, voices.modelHint, this.presetVoice ? voices.own : voices.default)}
      ${this.#choice("speech", voices.speech, voices.speechHint, voices.same)}
      <div>
        <button class="button small" ${inactive(this.disabled)} @click=${() => this.#show(true)}>
          ${icon("plus")} ${voices.add}
        </button>
      </div>
      ${dialog({
        open: this.open,
        title: voices.add,
        body: html`<div class="stack loose">
          <an-voice-upload @added=${this.#onAdded}></an-voice-upload>
          ${this.#of("upload").length > 0 ? html`<an-voice-list @removed=${this.#onRemoved}></an-voice-list>` : nothing}
        </div>`,
        onClose: () => this.#show(false),
      })}
    </div>`;
  }

  #choice(role: keyof VoiceSelection, label: string, hint: string, none: string): TemplateResult {
    const chosen = this.value[role];
    const { voices } = common();
    return html`<div class="voice-choice">
      ${select({
        label,
        hint,
        value: chosen ?? "",
        options: [{ value: "", label: none }],
        groups: [
          { label: voices.shipped, options: this.#options("shipped") },
          { label: voices.mine, options: this.#options("upload") },
        ],
        disabled: this.disabled,
        onChange: (id) => this.#change({ [role]: id === "" ? null : id }),
      })}
      ${playButton(previewOf(this.#audible(role), this.presetVoice), this.#playing.value)}
    </div>`;
  }

  /** The voice in use: output uses the model's voice, and the model uses the default voice. */
  #audible(role: keyof VoiceSelection): Pick<VoiceInfo, "id" | "name"> {
    const id = this.value[role] ?? (role === "speech" ? this.value.model : null);
    const name = this.presetVoice?.name ?? common().voices.default;
    const all = [...this.#of("shipped"), ...this.#of("upload")];
    return all.find((voice) => voice.id === id) ?? { id: DEFAULT_VOICE, name };
  }

  #of(source: VoiceSource): readonly VoiceInfo[] {
    return voicesOf(this.#voiceList.value, source);
  }

  #options(source: VoiceSource): readonly SelectOption[] {
    return this.#of(source).map(({ id, name }) => ({ value: id, label: name }));
  }

  #show(open: boolean): void {
    stopPreview();
    this.open = open;
  }

  #onAdded(event: CustomEvent<string>): void {
    this.open = false;
    this.#change({ model: event.detail });
  }

  #onRemoved({ detail }: CustomEvent<string>): void {
    const unlessDeleted = (id: string | null) => (id === detail ? null : id);
    this.#change({
      model: unlessDeleted(this.value.model),
      speech: unlessDeleted(this.value.speech),
    });
  }

  #change(change: Partial<VoiceSelection>): void {
    this.value = { ...this.value, ...change };
    this.emit("change", this.value);
  }
}
