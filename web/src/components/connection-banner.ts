import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { common } from "../i18n/common.ts";
import type { ConnectionStatus } from "../session/session-state.ts";
import { BaseElement } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import "./connection-banner.css";

/**
 * Shows a lost or reconnecting connection and what the user can do.
 *
 * @fires retry - reconnect now, without waiting for the next attempt
 * @fires again - start a new session
 */
@customElement("an-connection-banner")
export class ConnectionBanner extends BaseElement {
  #timer = 0;

  @property({ attribute: false }) connection: ConnectionStatus = { state: "none" };

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = window.setInterval(
      () => this.connection.state === "reconnecting" && this.requestUpdate(),
      500,
    );
  }

  override disconnectedCallback(): void {
    clearInterval(this.#timer);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    return html`<div role="status">${this.#content()}</div>`;
  }

  #content(): TemplateResult | typeof nothing {
    const { session } = common();
    switch (this.connection.state) {
      case "none":
      case "open":
        return nothing;
      case "connecting":
        return html`<div class="callout"><span class="spinner"></span>${session.connecting}</div>`;
      case "reconnecting":
        return this.#reconnecting(this.connection.deadline);
      case "lost":
        return this.#lost();
    }
  }

  #reconnecting(deadline: number): TemplateResult {
    const { session } = common();
    const left = Math.max(0, Math.ceil((deadline - performance.now()) / 1000));
    return html`<div class="callout caution">
      <span class="spinner"></span>
      <div class="grow">
        <p class="strong">${session.reconnecting}</p>
        <p class="soft" aria-live="off">${session.reconnectingHint(left)}</p>
      </div>
      <button class="button small" @click=${() => this.emit("retry", null)}>${session.retryNow}</button>
    </div>`;
  }

  #lost(): TemplateResult {
    const { session } = common();
    return html`<div class="callout danger">
      ${icon("wifiOff")}
      <div class="grow">
        <p class="strong">${session.lost}</p>
        <p class="soft">${session.lostHint}</p>
      </div>
      <button class="button small" @click=${() => this.emit("again", null)}>${session.again}</button>
    </div>`;
  }
}
