import { html, nothing, type TemplateResult } from "lit";
import { icon } from "../ui/icon.ts";
import type { CallKind } from "./call-settings.ts";
import { callSettingsStrings } from "./settings-strings.ts";

/** Selects the file that replaces the microphone. */
export function filePicker(
  kind: CallKind,
  file: File | null,
  onChoose: (file: File) => void,
): TemplateResult {
  const t = callSettingsStrings();
  return html`<div class="row still">
      <label class="button" for="call-file">${icon("upload")} ${file ? t.otherFile : t.chooseFile}</label>
      ${file ? html`<span class="small truncate">${file.name}</span>` : nothing}
    </div>
    <input
      id="call-file"
      class="visually-hidden"
      type="file"
      accept="audio/*,video/*"
      @change=${({ target }: Event) => {
        const chosen = (target as HTMLInputElement).files?.[0];
        if (chosen) onChoose(chosen);
      }}
    />
    <p class="tiny soft">${t.fileHint[kind]}</p>`;
}
