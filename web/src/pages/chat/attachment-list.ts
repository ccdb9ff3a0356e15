import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { mediaPreview } from "../../components/part-list.ts";
import type { Part } from "../../media/parts.ts";
import { icon } from "../../ui/icon.ts";
import "../../components/audio-player.ts";
import { chatStrings } from "./strings.ts";

export type AttachmentPart = Exclude<Part, { type: "text" }>;

/** Attachments of the message, each with a remove button. */
export function attachments(
  parts: readonly AttachmentPart[],
  remove: (part: AttachmentPart) => void,
): TemplateResult | typeof nothing {
  if (parts.length === 0) return nothing;
  return html`<ul role="list" class="attached">
    ${repeat(
      parts,
      ({ id }) => id,
      (part) => html`<li class=${part.type}>
        ${
          part.type === "audio"
            ? html`<an-audio-player .samples=${part.samples} label=${part.name}></an-audio-player>`
            : mediaPreview(part)
        }
        <button
          class="button square small"
          type="button"
          aria-label=${chatStrings().removePart(part.name)}
          @click=${() => remove(part)}
        >
          ${icon("close")}
        </button>
      </li>`,
    )}
  </ul>`;
}
