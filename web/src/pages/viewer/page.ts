import { html, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { common } from "../../i18n/common.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { liveNotice, unavailableNotice } from "./notices.ts";
import { RecordingLoader } from "./recording-loader.ts";
import "./recording.ts";
import "./page.css";

/** A recording, loaded by its id or by a share token: `/s/{id}`. */
@customElement("an-viewer-page")
export class ViewerPage extends BaseElement {
  readonly #name = decodeURIComponent(location.pathname.split("/")[2] ?? "");
  readonly #loader = new RecordingLoader(this.#name);
  readonly #loaded = new StoreController(this, this.#loader.state);

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#loader.load();
  }

  override disconnectedCallback(): void {
    this.#loader.close();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const loaded = this.#loaded.value;
    switch (loaded.is) {
      case "loading":
        return html`<div class="empty" role="status">
          <span class="spinner"></span>${common().loading}
        </div>`;
      case "closed":
        return unavailableNotice(this.#name, loaded.error, () => void this.#loader.load());
      case "live":
        return liveNotice(loaded.meta);
      case "open":
        return html`<an-recording name=${this.#name} .loaded=${loaded}></an-recording>`;
    }
  }
}
