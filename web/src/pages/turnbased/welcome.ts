import { html, type TemplateResult } from "lit";
import { icon } from "../../ui/icon.ts";
import { words } from "./words.ts";

/** Where a conversation begins; `ask` takes one of the suggestions. */
export function welcome(ask: (text: string) => void): TemplateResult {
  const say = words();
  return html`<div class="welcome">
    <span class="sign">${icon("chat")}</span>
    <h2>${say.empty}</h2>
    <p class="soft">${say.emptyHint}</p>
    <div class="stack tight">
      ${Object.values(say.suggestions).map(
        (text) => html`<button class="button" @click=${() => ask(text)}>${text}</button>`,
      )}
    </div>
  </div>`;
}
