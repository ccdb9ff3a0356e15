import { html, nothing, type TemplateResult } from "lit";
import { showError } from "../../shell/errors.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { toast } from "../../ui/toasts.ts";
import { chatStrings } from "./strings.ts";

/** A small button below a message. */
export function toolButton(
  name: IconName,
  label: string,
  disabled: boolean,
  run: () => void,
): TemplateResult {
  return html`<button
    class="button quiet square small"
    aria-label=${label}
    title=${label}
    ?disabled=${disabled}
    @click=${run}
  >
    ${icon(name)}
  </button>`;
}

/** Returns nothing if there is no text. */
export function copyButton(text: string): TemplateResult | typeof nothing {
  if (text === "") return nothing;
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    toast({ tone: "good", title: chatStrings().copied });
  };
  return toolButton("copy", chatStrings().copy, false, () =>
    copy().catch((error: unknown) => showError(error)),
  );
}
