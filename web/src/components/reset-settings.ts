import { html, type TemplateResult } from "lit";
import { common } from "../i18n/common.ts";
import type { Fields, Settings } from "../state/store.ts";
import { icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { toast } from "../ui/toasts.ts";

/** Fields that no reset changes: what the user wrote or selected for the model. */
const CONTENT = ["preset", "prompt", "wording", "greeting", "voice", "speech"];

/** The button that restores the initial values of all settings. The instructions and voices stay. */
export function resetSettings<F extends Fields>(
  settings: Settings<F>,
  disabled = false,
): TemplateResult {
  const t = common().settings;
  const changes = settings.changed(CONTENT);
  const isInitial = Object.keys(changes).length === 0;
  const reset = (): void => {
    settings.reset(Object.keys(changes));
    toast({
      tone: "good",
      title: t.wereReset,
      action: { label: t.undo, run: () => settings.update(changes) },
    });
  };
  return html`<button
    type="button"
    class="button quiet"
    ${inactive(disabled || isInitial)}
    @click=${reset}
  >
    ${icon("refresh")} ${t.reset}
  </button>`;
}
