import { html, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { common } from "../../i18n/common.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { stillLive, unavailableNotice } from "./notices.ts";
import { RecordingLoader } from "./recording-loader.ts";
import "./recording.ts";
import "./page.css";

/** A recording, opened by its id or by a share token: `/s/{id}`. */
@customElement("an-viewer-page")
export class ViewerPage extends BaseElement {
  readonly #name = decodeURIComponent(location.pathname.split("/")[2] ?? "");
  readonly #opening = new RecordingLoader(this.#name);
  readonly #opened = new StoreController(this, this.#opening.state);

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#opening.look();
  }

  override disconnectedCallback(): void {
    this.#opening.close();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const opened = this.#opened.value;
    switch (opened.is) {
      case "loading":
        return html`<div class="empty" role="status">
          <span class="spinner"></span>${common().loading}
        </div>`;
      case "closed":
        return unavailableNotice(this.#name, opened.error, () => void this.#opening.look());
      case "live":
        return stillLive(opened.meta);
      case "open":
        return html`<an-recording name=${this.#name} .opened=${opened}></an-recording>`;
    }
  }
}
