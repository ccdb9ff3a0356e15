import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import type { Preset } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import type { Part } from "../media/parts.ts";
import type { Instructions } from "../session/instructions.ts";
import { tellProblem } from "../shell/problem.ts";
import { Watch } from "../state/store.ts";
import { type Changed, Element } from "../ui/element.ts";
import type { Attachable } from "./attachments.ts";
import "./part-list.ts";
import "./preset-selector.ts";
import type { VoiceChoice } from "./voice-shelf.ts";
import "./voice-picker.ts";

/** Preset, instructions and voices of a page, and what the reader makes of them. */
@customElement("an-instructions-panel")
export class InstructionsPanel extends Element {
  #parts: Watch<readonly Part[]> | undefined;

  /** Given once. */
  @property({ attribute: false }) instructions!: Instructions;
  /** What may be added to the instructions beside text. */
  @property({ attribute: false }) kinds: readonly Attachable[] = ["audio"];
  @property({ type: Boolean }) disabled = false;

  protected override willUpdate(changed: Changed<this>): void {
    if (changed.has("instructions")) this.#parts ??= new Watch(this, this.instructions.parts);
  }

  protected override render(): TemplateResult {
    const { presets, voices } = common();
    const { page, kept } = this.instructions;
    return html`<section class="card stack">
      <an-preset-selector
        page=${page}
        .chosen=${kept.preset}
        ?disabled=${this.disabled}
        @choose=${({ detail }: CustomEvent<Preset>) => tried(this.instructions.choose(detail))}
      ></an-preset-selector>
      <details class="fold">
        <summary>${presets.prompt}</summary>
        <an-part-list
          .parts=${this.#parts?.value ?? []}
          .kinds=${this.kinds}
          ?disabled=${this.disabled}
          @change=${({ detail }: CustomEvent<readonly Part[]>) => this.instructions.edit(detail)}
        ></an-part-list>
      </details>
      <details class="fold">
        <summary>${voices.label}</summary>
        <an-voice-picker
          .value=${{ model: kept.voice, speech: kept.speech }}
          .own=${this.instructions.own}
          ?disabled=${this.disabled}
          @change=${({ detail }: CustomEvent<VoiceChoice>) => this.#onVoices(detail)}
        ></an-voice-picker>
      </details>
    </section>`;
  }

  #onVoices({ model, speech }: VoiceChoice): void {
    this.instructions.useSpeech(speech);
    if (model !== this.instructions.kept.voice) tried(this.instructions.useVoice(model));
  }
}

function tried(work: Promise<void>): void {
  work.catch((error: unknown) => tellProblem(error));
}
