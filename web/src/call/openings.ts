import { html, nothing, type TemplateResult } from "lit";
import { defineStrings } from "../i18n/language.ts";
import { capabilities } from "../shell/capabilities.ts";
import { type IconName, icon } from "../ui/icon.ts";
import type { CallView } from "./call-actions.ts";
import { isEnabled } from "./controls.ts";
import type { OpeningName } from "./opening-texts.ts";
import "./openings.css";

const ICONS: Record<OpeningName, IconName> = { count: "hand", quiz: "help", story: "book" };

const openingStrings = defineStrings(
  {
    label: "Start a call in which the model speaks first",
    titles: { count: "Interrupt me while I count", quiz: "Quiz me", story: "Tell me a story" },
  },
  {
    label: "开始通话，模型先说话",
    titles: { count: "数数时打断我", quiz: "考考我", story: "讲个故事" },
  },
);

/** Buttons that start a voice call with an opening. They keep their place if no engine can speak first. */
export function openings({ call, actions }: CallView): TemplateResult | typeof nothing {
  if (call.kind !== "audio" || !isEnabled(call.kind)) return nothing;
  const t = openingStrings();
  const possible = capabilities.value?.greets ?? true;
  return html`<ul class="openings ${possible ? "" : "absent"}" role="list" aria-label=${t.label}>
    ${(Object.keys(ICONS) as OpeningName[]).map(
      (name) => html`<li>
        <button @click=${() => actions.start(name)}>
          ${icon(ICONS[name])}<span>${t.titles[name]}</span>
        </button>
      </li>`,
    )}
  </ul>`;
}
