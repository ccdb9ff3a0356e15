import { html, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import type { Voice } from "../api/voices.ts";
import { common } from "../i18n/common.ts";
import { number } from "../i18n/format.ts";
import { tellProblem } from "../shell/problem.ts";
import { Watch } from "../state/store.ts";
import { type Option, select } from "../ui/controls.ts";
import { dialog } from "../ui/dialog.ts";
import { Element } from "../ui/element.ts";
import { icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import {
  DEFAULT_VOICE,
  hush,
  loadShelf,
  type OwnVoice,
  playing,
  removeVoice,
  shelf,
  togglePlaying,
  type VoiceChoice,
} from "./voice-shelf.ts";
import "./voice-adder.ts";
import "./voice-picker.css";

/**
 * Which voice the model has, and which one its speech: chosen, listened to, added, deleted.
 *
 * @fires change - a VoiceChoice
 */
@customElement("an-voice-picker")
export class VoicePicker extends Element {
  readonly #shelf = new Watch(this, shelf);
  readonly #playing = new Watch(this, playing);

  @property({ attribute: false }) value: VoiceChoice = { model: null, speech: null };
  /** Of a preset: what the model has where none is chosen, instead of the server's default voice. */
  @property({ attribute: false }) own: OwnVoice | null = null;
  @property({ type: Boolean }) disabled = false;

  @state() private open = false;

  override connectedCallback(): void {
    super.connectedCallback();
    if (shelf.value === null) loadShelf().catch((error: unknown) => tellProblem(error));
  }

  override disconnectedCallback(): void {
    hush();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const { voices } = common();
    return html`<div class="stack">
      ${this.#choice("model", voices.model, voices.modelHint, this.own ? voices.own : voices.default)}
      ${this.#choice("speech", voices.speech, voices.speechHint, voices.same)}
      <div>
        <button class="button small" ?disabled=${this.disabled} @click=${() => this.#show(true)}>
          ${icon("plus")} ${voices.add}
        </button>
      </div>
      ${dialog({
        open: this.open,
        title: voices.add,
        body: html`<div class="stack loose">
          <an-voice-adder @added=${this.#onAdded}></an-voice-adder>
          ${this.#list()}
        </div>`,
        onClose: () => this.#show(false),
      })}
    </div>`;
  }

  #choice(role: keyof VoiceChoice, label: string, hint: string, none: string): TemplateResult {
    const chosen = this.value[role];
    const { voices } = common();
    return html`<div class="choice">
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
      ${this.#playButton(this.#audible(role))}
    </div>`;
  }

  #list(): TemplateResult {
    const uploaded = this.#of("upload");
    const { voices } = common();
    if (uploaded.length === 0) return html``;
    return html`<section class="stack tight">
      <h3>${voices.mine}</h3>
      <ul role="list" class="voices">
        ${uploaded.map(
          (voice) => html`<li class="row apart still">
            <span class="truncate">${voice.name}</span>
            <span class="row tight still">
              <span class="tiny soft number">${voices.seconds(number(voice.duration_ms / 1000, 1))}</span>
              ${this.#playButton(voice)}
              <button
                class="button quiet square small"
                aria-label=${voices.remove(voice.name)}
                @click=${() => this.#remove(voice)}
              >
                ${icon("trash")}
              </button>
            </span>
          </li>`,
        )}
      </ul>
    </section>`;
  }

  /** What is heard with the present choice: the speech has the model's voice, the model the default one. */
  #audible(role: keyof VoiceChoice): Pick<Voice, "id" | "name"> {
    const id = this.value[role] ?? (role === "speech" ? this.value.model : null);
    const name = this.own?.name ?? common().voices.default;
    return this.#shelf.value?.find((voice) => voice.id === id) ?? { id: DEFAULT_VOICE, name };
  }

  #playButton({ id, name }: Pick<Voice, "id" | "name">): TemplateResult {
    const { voices } = common();
    const plays = this.#playing.value === id;
    return html`<button
      class="button square listen"
      aria-label=${plays ? voices.stop : voices.play(name)}
      @click=${() => this.#listen(id).catch((error: unknown) => tellProblem(error))}
    >
      ${icon(plays ? "stop" : "play")}
    </button>`;
  }

  #listen(id: string): Promise<void> {
    return togglePlaying(id, id === DEFAULT_VOICE ? this.own : null);
  }

  #of(source: Voice["source_type"]): readonly Voice[] {
    return (this.#shelf.value ?? []).filter((voice) => voice.source_type === source);
  }

  #options(source: Voice["source_type"]): readonly Option[] {
    return this.#of(source).map(({ id, name }) => ({ value: id, label: name }));
  }

  #show(open: boolean): void {
    hush();
    this.open = open;
  }

  #onAdded(event: CustomEvent<string>): void {
    this.open = false;
    this.#change({ model: event.detail });
  }

  #change(change: Partial<VoiceChoice>): void {
    this.value = { ...this.value, ...change };
    this.tell("change", this.value);
  }

  async #remove(voice: Voice): Promise<void> {
    const { voices } = common();
    if (!confirm(voices.removeAsk(voice.name))) return;
    try {
      await removeVoice(voice.id);
    } catch (error) {
      tellProblem(error);
      return;
    }
    const kept = (id: string | null) => (id === voice.id ? null : id);
    this.#change({ model: kept(this.value.model), speech: kept(this.value.speech) });
    toast({ tone: "good", title: voices.deleted });
  }
}
