import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { allowChimes, chime } from "../audio/chimes.ts";
import { devices } from "../audio/devices.ts";
import { common } from "../i18n/common.ts";
import { formatClock } from "../i18n/format.ts";
import type { QueueStatus } from "../session/session-state.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { toggle } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";
import "./queue-panel.css";

/**
 * Position in the queue and estimated wait, or why it is unknown. Empty without a status. The switch controls
 * `chimeInQueue`, which needs `allowChimes` in the click that starts the session.
 *
 * @fires leave - the user leaves the queue
 */
@customElement("an-queue-panel")
export class QueuePanel extends BaseElement {
  readonly #devices = new StoreController(this, devices);
  #timer = 0;

  @property({ attribute: false }) status: QueueStatus | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = window.setInterval(() => this.status && this.requestUpdate(), 500);
  }

  override disconnectedCallback(): void {
    clearInterval(this.#timer);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult | typeof nothing {
    const { status } = this;
    if (status === null) return nothing;
    const { queue } = common();
    return html`<section class="card" aria-live="polite" aria-label=${queue.title}>
      <p class="place number" aria-hidden="true">${status.position}</p>
      <div class="stack tight grow">
        <h2>${heading(status)}</h2>
        <p class="soft">
          ${queue.position(status.position, status.length)}<span aria-hidden="true">${timeLeft(status)}</span>
        </p>
        <p class="small soft">${queue.wait}</p>
        <div class="row apart">
          ${toggle({ label: queue.chimes, checked: this.#devices.value.chimes, onChange: setChimes })}
          <button class="button" @click=${() => this.emit("leave", null)}>
            ${icon("close")} ${queue.leave}
          </button>
        </div>
      </div>
    </section>`;
  }
}

function setChimes(on: boolean): void {
  devices.update({ chimes: on });
  if (!on) return;
  allowChimes();
  chime("closer");
}

function heading({ etaS, position, reason }: QueueStatus): string {
  const { queue } = common();
  if (etaS !== null) return position === 1 ? queue.next : queue.title;
  const reasons: Readonly<Record<string, string>> = queue.reasons;
  return reasons[reason ?? ""] ?? queue.reasons.no_worker;
}

function timeLeft({ etaS, at, stale }: QueueStatus): string {
  const { queue } = common();
  if (stale) return ` · ${queue.stale}`;
  if (etaS === null) return "";
  const left = etaS - (performance.now() - at) / 1000;
  return ` · ${left < 1 ? queue.soon : queue.eta(formatClock(left))}`;
}
