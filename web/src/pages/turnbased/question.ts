import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { picture } from "../../components/part-list.ts";
import { type Part, wordsOf } from "../../media/parts.ts";
import type { Question } from "../../session/chat-request.ts";
import { Element } from "../../ui/element.ts";
import "../../components/sound-player.ts";
import "./composer.ts";
import { copyButton, tool } from "./tools.ts";
import { words } from "./words.ts";

/**
 * What the user said; it can be said differently.
 *
 * @fires edit - Part[]: ask this instead
 * @fires remove - take it back
 * @fires stop - no more of the answer that is on its way
 */
@customElement("an-question")
export class QuestionElement extends Element {
  @property({ attribute: false }) question!: Question;
  @property({ attribute: false }) leftOut: ReadonlySet<number> = new Set();
  /** Nothing can be changed while an answer is on its way. */
  @property({ type: Boolean }) busy = false;

  @state() private editing = false;

  /** Change it where it stands. */
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
      @stop=${() => this.tell("stop", null)}
      @cancel=${() => this.#leave()}
      @send=${({ detail }: CustomEvent<readonly Part[]>) => {
        this.#leave();
        this.tell("edit", detail);
      }}
    ></an-composer>`;
  }

  #shown(): TemplateResult {
    const say = words();
    const text = wordsOf(this.question.parts);
    return html`<h3 class="visually-hidden">${say.you}</h3>
      <div class="said">${this.question.parts.map((part) => this.#part(part))}</div>
      <div class="row still tools">
        ${tool("edit", say.edit, this.busy, () => this.edit())} ${copyButton(text)}
        ${tool("trash", say.remove, this.busy, () => this.tell("remove", null))}
      </div>`;
  }

  #part(part: Part): TemplateResult {
    const out = this.leftOut.has(part.id);
    return html`<div class="part ${part.type} ${out ? "out" : ""}">
      ${shown(part)} ${out ? html`<span class="badge caution">${words().leftOut}</span>` : nothing}
    </div>`;
  }

  #leave(): void {
    this.editing = false;
  }
}

function shown(part: Part): TemplateResult {
  switch (part.type) {
    case "text":
      return html`<p>${part.text}</p>`;
    case "audio":
      return html`<an-sound-player .samples=${part.samples} label=${part.name}></an-sound-player>`;
    default:
      return picture(part);
  }
}
