import { html, type TemplateResult } from "lit";
import { icon } from "../../ui/icon.ts";
import { chatStrings } from "./strings.ts";

/** Where a conversation begins; `ask` takes one of the suggestions. */
export function chatWelcome(ask: (text: string) => void): TemplateResult {
  const t = chatStrings();
  return html`<div class="welcome">
    <span class="sign">${icon("chat")}</span>
    <h2>${t.empty}</h2>
    <p class="soft">${t.emptyHint}</p>
    <div class="stack tight">
      ${Object.values(t.suggestions).map(
        (text) => html`<button class="button" @click=${() => ask(text)}>${text}</button>`,
      )}
    </div>
  </div>`;
}
