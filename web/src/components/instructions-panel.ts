import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import type { Preset } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import type { Part } from "../media/parts.ts";
import type { Instructions } from "../session/instructions.ts";
import { showError } from "../shell/errors.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import type { AttachmentType } from "./attachments.ts";
import "./part-list.ts";
import "./preset-selector.ts";
import type { VoiceSelection } from "./voice-list.ts";
import "./voice-picker.ts";

/** Preset, instructions and voices of a page, with the user's changes. */
@customElement("an-instructions-panel")
export class InstructionsPanel extends BaseElement {
  #parts: StoreController<readonly Part[]> | undefined;

  /** Set once. */
  @property({ attribute: false }) instructions!: Instructions;
  /** Kinds of parts that can be added to the text. */
  @property({ attribute: false }) kinds: readonly AttachmentType[] = ["audio"];
  @property({ type: Boolean }) disabled = false;

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (changed.has("instructions"))
      this.#parts ??= new StoreController(this, this.instructions.parts);
  }

  protected override render(): TemplateResult {
    const { presets, voices } = common();
    const { page, selection } = this.instructions;
    return html`<section class="card stack">
      <an-preset-selector
        page=${page}
        .chosen=${selection.preset}
        ?disabled=${this.disabled}
        @choose=${({ detail }: CustomEvent<Preset>) => this.#choose(detail)}
      ></an-preset-selector>
      <details class="fold" @toggle=${this.#onToggle}>
        <summary>${presets.prompt}</summary>
        <an-part-list
          .parts=${this.#parts?.value ?? []}
          .kinds=${this.kinds}
          ?disabled=${this.disabled}
          @change=${({ detail }: CustomEvent<readonly Part[]>) => this.instructions.edit(detail)}
        ></an-part-list>
      </details>
      <details class="fold" @toggle=${this.#onToggle}>
        <summary>${voices.label}</summary>
        <an-voice-picker
          .value=${{ model: selection.voice, speech: selection.speech }}
          .presetVoice=${this.instructions.presetVoice}
          ?disabled=${this.disabled}
          @change=${({ detail }: CustomEvent<VoiceSelection>) => this.#onVoices(detail)}
        ></an-voice-picker>
      </details>
    </section>`;
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
