import { html, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { BaseElement } from "./base-element.ts";
import "./prose.css";

/**
 * Markdown of a model, which may still grow. The parser loads with the first answer. The text is
 * shown as it is until then, or if the parser cannot be loaded.
 */
@customElement("an-markdown")
export class MarkdownText extends BaseElement {
  @property({ attribute: false }) text = "";

  @state() private parse: typeof import("./markdown-parser.ts").markdownBlocks | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    import("./markdown-parser.ts").then(
      ({ markdownBlocks }) => {
        this.parse = markdownBlocks;
      },
      () => undefined,
    );
  }

  protected override render(): TemplateResult {
    const body = this.parse?.(this.text) ?? html`<p>${this.text}</p>`;
    return html`<div class="prose">${body}</div>`;
  }
}
