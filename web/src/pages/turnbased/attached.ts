import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { picture } from "../../components/part-list.ts";
import type { Part } from "../../media/parts.ts";
import { icon } from "../../ui/icon.ts";
import "../../components/sound-player.ts";
import { words } from "./words.ts";

export type Attached = Exclude<Part, { type: "text" }>;

/** What will be sent with the words; each can be taken away. */
export function attachments(
  parts: readonly Attached[],
  remove: (part: Attached) => void,
): TemplateResult | typeof nothing {
  if (parts.length === 0) return nothing;
  return html`<ul role="list" class="attached">
    ${repeat(
      parts,
      ({ id }) => id,
      (part) => html`<li class=${part.type}>
        ${
          part.type === "audio"
            ? html`<an-sound-player .samples=${part.samples} label=${part.name}></an-sound-player>`
            : picture(part)
        }
        <button
          class="button square small"
          type="button"
          aria-label=${words().removePart(part.name)}
          @click=${() => remove(part)}
        >
          ${icon("close")}
        </button>
      </li>`,
    )}
  </ul>`;
}
