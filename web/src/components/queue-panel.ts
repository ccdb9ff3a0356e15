import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { common } from "../i18n/common.ts";
import { clock } from "../i18n/format.ts";
import type { QueuePlace } from "../session/conversation-state.ts";
import { devices } from "../settings/devices.ts";
import { Watch } from "../state/store.ts";
import { toggle } from "../ui/controls.ts";
import { Element } from "../ui/element.ts";
import { icon } from "../ui/icon.ts";
import { allowChimes, chime } from "./chimes.ts";
import "./queue-panel.css";

/**
 * Where one stands in the queue, and how long it still takes. Shows nothing without a place.
 * The chimes that it can switch are `chimeInQueue`'s; they need one gesture before: call `allowChimes`
 * in the click that starts a session.
 *
 * @fires leave - the reader does not want to wait
 */
@customElement("an-queue-panel")
export class QueuePanel extends Element {
  readonly #devices = new Watch(this, devices);
  #timer = 0;

  @property({ attribute: false }) place: QueuePlace | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = window.setInterval(() => this.place && this.requestUpdate(), 500);
  }

  override disconnectedCallback(): void {
    clearInterval(this.#timer);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult | typeof nothing {
    const { place } = this;
    if (place === null) return nothing;
    const { queue } = common();
    const left = remaining(place);
    return html`<section class="card" aria-live="polite" aria-label=${queue.title}>
      <p class="place number" aria-hidden="true">${place.position}</p>
      <div class="stack tight grow">
        <h2>${place.position === 1 ? queue.next : queue.title}</h2>
        <p class="soft">
          ${queue.position(place.position, place.length)}<span aria-hidden="true">
            · ${left < 1 ? queue.soon : queue.eta(clock(left))}</span
          >
        </p>
        <p class="small soft">${queue.wait}</p>
        <div class="row apart">
          ${toggle({ label: queue.chimes, checked: this.#devices.value.chimes, onChange: setChimes })}
          <button class="button" @click=${() => this.tell("leave", null)}>
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

function remaining(place: QueuePlace): number {
  return Math.max(0, place.etaS - (performance.now() - place.at) / 1000);
}
