import { html, type TemplateResult } from "lit";
import { type InlineRun, type MarkdownBlock, parseBlocks, parseInline } from "./markdown-parser.ts";
import "./prose.css";

/** Renders Markdown text of a model. */
export function renderMarkdown(text: string): TemplateResult {
  return html`<div class="prose">${parseBlocks(text).map(block)}</div>`;
}

function block(one: MarkdownBlock): TemplateResult {
  switch (one.type) {
    case "heading":
      return html`<p class="strong">${line(one.text)}</p>`;
    case "code":
      return html`<pre tabindex="0"><code>${one.text}</code></pre>`;
    case "list":
      return one.start === null
        ? html`<ul>${one.items.map((item) => html`<li>${line(item)}</li>`)}</ul>`
        : html`<ol start=${one.start}>${one.items.map((item) => html`<li>${line(item)}</li>`)}</ol>`;
    default:
      return html`<p>${line(one.text)}</p>`;
  }
}

function line(text: string): TemplateResult[] {
  return parseInline(text).map(run);
}

function run({ style, text }: InlineRun): TemplateResult {
  switch (style) {
    case "strong":
      return html`<strong>${text}</strong>`;
    case "em":
      return html`<em>${text}</em>`;
    case "code":
      return html`<code>${text}</code>`;
    default:
      return html`${text}`;
  }
}
