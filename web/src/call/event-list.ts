import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { formatSeconds } from "../i18n/format.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import type { EventLog, LoggedEvent } from "./event-log.ts";
import { callStrings } from "./strings.ts";

/** The messages of a call, the newest first. */
@customElement("an-event-list")
export class EventList extends BaseElement {
  #events: StoreController<readonly LoggedEvent[]> | undefined;

  /** Set once. */
  @property({ attribute: false }) log!: EventLog;

  protected override willUpdate(): void {
    this.#events ??= new StoreController(this, this.log);
  }

  protected override render(): TemplateResult {
    const events = this.#events?.value ?? [];
    if (events.length === 0) return html`<p class="small soft empty">${callStrings().noEvents}</p>`;
    return html`<ol role="list">
      ${repeat(events, ({ id }) => id, row)}
    </ol>`;
  }
}

function row({ at, sent, type, text }: LoggedEvent): TemplateResult {
  const t = callStrings();
  return html`<li class="tiny">
    <span class="number soft">${formatSeconds(at)}</span>
    <span aria-label=${sent ? t.sent : t.received} role="img">${sent ? "→" : "←"}</span>
    <strong>${type}</strong> <code class="soft">${text}</code>
  </li>`;
}
