import "./named-voice.ts";
import "./part-list.ts";
import "./preset-selector.ts";
import "./voice-picker.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { GREETING_LENGTH, type Preset } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import type { Part } from "../media/parts.ts";
import type { Instructions, SelectionSettings } from "../session/instructions.ts";
import { capabilities, clonesVoices } from "../shell/capabilities.ts";
import { showError } from "../shell/errors.ts";
import { StoreController } from "../state/store.ts";
import { ownPresets, type PresetContent } from "../storage/own-presets.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { textArea } from "../ui/controls.ts";
import type { AttachmentType } from "./part-list.ts";
import { type VoiceSelection, voiceAt } from "./voice-list.ts";

/** Selects the preset of the page's address, if it has one. */
export function adoptPreset(settings: SelectionSettings): void {
  const preset = new URLSearchParams(location.search).get("preset");
  if (preset === null) return;
  history.replaceState(null, "", location.pathname);
  if (preset === settings.value.preset) return;
  const own = ownPresets.value.find(({ id }) => id === preset);
  const voices = own ? { voice: own.voice, speech: own.speech } : {};
  settings.update({ preset, wording: null, greeting: null, ...voices });
}

/** Preset, instructions and voices of a page, with the user's changes. */
@customElement("an-instructions-panel")
export class InstructionsPanel extends BaseElement {
  #parts: StoreController<readonly Part[]> | undefined;

  /** Set once. */
  @property({ attribute: false }) instructions!: Instructions;
  /** Kinds of parts that can be added to the text. */
  @property({ attribute: false }) kinds: readonly AttachmentType[] = ["audio"];
  @property({ type: Boolean }) disabled = false;

  constructor() {
    super();
    new StoreController(this, capabilities);
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (changed.has("instructions"))
      this.#parts ??= new StoreController(this, this.instructions.parts);
  }

  protected override render(): TemplateResult {
    const { presets } = common();
    const { page, selection } = this.instructions;
    return html`<section class="card stack">
      <an-preset-selector
        page=${page}
        .chosen=${selection.preset}
        ?disabled=${this.disabled}
        @choose=${({ detail }: CustomEvent<Preset>) => this.#choose(detail)}
      ></an-preset-selector>
      <an-own-preset
        .chosen=${selection.preset}
        .content=${() => this.#content()}
        @choose=${({ detail }: CustomEvent<Preset>) => this.#choose(detail)}
      ></an-own-preset>
      <details class="fold" @toggle=${this.#onToggle}>
        <summary>${presets.prompt}</summary>
        <an-part-list
          .parts=${this.#parts?.value ?? []}
          .kinds=${this.kinds}
          ?disabled=${this.disabled}
          @change=${({ detail }: CustomEvent<readonly Part[]>) => this.instructions.edit(detail)}
        ></an-part-list>
      </details>
      ${this.#greeting()}
      <an-named-voice ?disabled=${this.disabled}></an-named-voice>
      ${clonesVoices() ? this.#voices() : nothing}
    </section>`;
  }

  #voices(): TemplateResult {
    const { selection, presetVoice } = this.instructions;
    return html`<details class="fold" @toggle=${this.#onToggle}>
      <summary>${common().voices.label}</summary>
      <an-voice-picker
        .value=${{ model: selection.voice, speech: selection.speech }}
        .presetVoice=${presetVoice}
        ?disabled=${this.disabled}
        @change=${({ detail }: CustomEvent<VoiceSelection>) => this.#onVoices(detail)}
      ></an-voice-picker>
    </details>`;
  }

  #greeting(): TemplateResult | typeof nothing {
    const { greeting, greetingHint } = common().presets;
    // Shown until it is known that an engine does not greet, so that nothing moves.
    if (this.instructions.page !== "half_duplex_audio" || capabilities.value?.greets === false)
      return nothing;
    return textArea({
      label: greeting,
      hint: greetingHint,
      value: this.instructions.greeting,
      rows: 2,
      longest: GREETING_LENGTH,
      disabled: this.disabled,
      onInput: (words) => this.instructions.greetWith(words),
    });
  }

  async #content(): Promise<PresetContent> {
    const { selection, presetVoicePath, parts, greeting } = this.instructions;
    const texts = parts.value.flatMap((part) => (part.type === "text" ? [part.text] : []));
    const voice = selection.voice ?? (await voiceAt(presetVoicePath));
    return { texts, greeting, voice, speech: selection.speech };
  }

  #choose(preset: Preset): void {
    this.instructions.choose(preset);
    if (this.querySelector("details[open]")) showingErrors(this.instructions.complete());
  }

  readonly #onToggle = ({ target }: Event): void => {
    if ((target as HTMLDetailsElement).open) showingErrors(this.instructions.complete());
  };

  #onVoices({ model, speech }: VoiceSelection): void {
    this.instructions.useSpeech(speech);
    if (model !== this.instructions.selection.voice)
      showingErrors(this.instructions.useVoice(model));
  }
}

function showingErrors(work: Promise<void>): void {
  work.catch((error: unknown) => showError(error));
}
