import "../../components/voice-picker.ts";
import { html, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { loadVoices, voiceList } from "../../components/voice-list.ts";
import { common } from "../../i18n/common.ts";
import { showError } from "../../shell/errors.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { adminStrings } from "./strings.ts";

/** The voices of the server. Any user may add voices, so it loads them each time it is shown. */
@customElement("an-admin-voices")
export class AdminVoices extends BaseElement {
  readonly #voiceList = new StoreController(this, voiceList);

  override connectedCallback(): void {
    super.connectedCallback();
    loadVoices().catch((error: unknown) => showError(error));
  }

  protected override render(): TemplateResult {
    return html`<section class="card stack" aria-labelledby="voices">
      <div class="stack tight">
        <h2 id="voices">${adminStrings().voices}</h2>
        <p class="small soft">${adminStrings().voicesHint}</p>
      </div>
      ${this.#voiceList.value === null ? html`<span class="spinner"></span>` : html`<an-voice-list shipped></an-voice-list>`}
      <details class="fold">
        <summary>${common().voices.add}</summary>
        <an-voice-upload></an-voice-upload>
      </details>
    </section>`;
  }
}
