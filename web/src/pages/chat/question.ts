import "../../components/audio-player.ts";
import "./composer.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { mediaPreview } from "../../components/part-list.ts";
import { type Part, plainText } from "../../media/parts.ts";
import type { Question } from "../../session/chat-exchange.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { copyButton, toolButton } from "./message-buttons.ts";
import { chatStrings } from "./strings.ts";

/**
 * A message of the user, which can be edited.
 *
 * @fires edit - Part[]: ask this instead
 * @fires remove - delete the message
 * @fires stop - stop the current answer
 */
@customElement("an-question")
export class QuestionElement extends BaseElement {
  @property({ attribute: false }) question!: Question;
  @property({ attribute: false }) excluded: ReadonlySet<number> = new Set();
  /** Disabled while an answer is generated. */
  @property({ type: Boolean }) busy = false;

  @state() private editing = false;

  /** Edits the message in place. */
  edit(): void {
    this.editing = true;
    void this.updateComplete.then(() => this.querySelector<HTMLElement>("an-composer")?.focus());
  }

  protected override render(): TemplateResult {
    return this.editing ? this.#editor() : this.#shown();
  }

  #editor(): TemplateResult {
    return html`<an-composer
      editing
      ?busy=${this.busy}
      .draft=${this.question.parts}
      @stop=${() => this.emit("stop", null)}
      @cancel=${() => this.#unsubscribe()}
      @send=${({ detail }: CustomEvent<readonly Part[]>) => {
        this.#unsubscribe();
        this.emit("edit", detail);
      }}
    ></an-composer>`;
  }

  #shown(): TemplateResult {
    const t = chatStrings();
    const text = plainText(this.question.parts);
    return html`<h3 class="visually-hidden">${t.you}</h3>
      <div class="message-content">${this.question.parts.map((part) => this.#part(part))}</div>
      <div class="row still tools">
        ${toolButton("edit", t.edit, this.busy, () => this.edit())} ${copyButton(text)}
        ${toolButton("trash", t.remove, this.busy, () => this.emit("remove", null))}
      </div>`;
  }

  #part(part: Part): TemplateResult {
    const out = this.excluded.has(part.id);
    return html`<div class="part ${part.type} ${out ? "excluded" : ""}">
      ${shown(part)} ${out ? html`<span class="badge caution">${chatStrings().excluded}</span>` : nothing}
    </div>`;
  }

  #unsubscribe(): void {
    this.editing = false;
  }
}

function shown(part: Part): TemplateResult {
  switch (part.type) {
    case "text":
      return html`<p>${part.text}</p>`;
    case "audio":
      return html`<an-audio-player .samples=${part.samples} label=${part.name}></an-audio-player>`;
    default:
      return mediaPreview(part);
  }
}
