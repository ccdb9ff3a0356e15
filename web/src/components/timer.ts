import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { formatClock } from "../i18n/format.ts";
import { BaseElement } from "../ui/base-element.ts";

/**
 * A timer: counts up from `from` until `until`, or down to `deadline`. Times are
 * `performance.now()`.
 */
@customElement("an-timer")
export class TimerElement extends BaseElement {
  #timer = 0;

  @property({ attribute: false }) from: number | null = null;
  @property({ attribute: false }) until: number | null = null;
  @property({ attribute: false }) deadline: number | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = window.setInterval(() => this.requestUpdate(), 500);
  }

  override disconnectedCallback(): void {
    clearInterval(this.#timer);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    return html`<span role="timer" aria-live="off">${formatClock(this.#seconds)}</span>`;
  }

  get #seconds(): number {
    const now = performance.now();
    if (this.deadline !== null) return Math.ceil((this.deadline - now) / 1000);
    return ((this.until ?? now) - (this.from ?? now)) / 1000;
  }
}
