import { html, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { common } from "../../i18n/common.ts";
import { Watch } from "../../state/store.ts";
import { Element } from "../../ui/element.ts";
import { closed, stillLive } from "./notices.ts";
import { Opening } from "./opened.ts";
import "./recording.ts";
import "./page.css";

/** One recording, for whoever has its id or the token of a share link: `/s/{either}`. */
@customElement("an-viewer-page")
export class ViewerPage extends Element {
  readonly #name = decodeURIComponent(location.pathname.split("/")[2] ?? "");
  readonly #opening = new Opening(this.#name);
  readonly #opened = new Watch(this, this.#opening.state);

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
        return closed(this.#name, opened.error, () => void this.#opening.look());
      case "live":
        return stillLive(opened.meta);
      case "open":
        return html`<an-recording name=${this.#name} .opened=${opened}></an-recording>`;
    }
  }
}
