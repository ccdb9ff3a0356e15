import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import type { SessionKind } from "../../api/admin.ts";
import { tag } from "../../i18n/language.ts";
import { BaseElement, freshId } from "../../ui/base-element.ts";
import { select } from "../../ui/controls.ts";
import type { EventRow } from "./live-state.ts";
import {
  adminStrings,
  emptyNote,
  KINDS,
  kindName,
  named,
  sessionName,
  stateBadge,
  stateStrings,
} from "./strings.ts";

const STATES = ["queued", "assigned", "preparing", "active", "paused", "recovering", "ended"];
const SHOWN = 100;

/** Session events with filters, newest first. */
@customElement("an-admin-events")
export class AdminEvents extends BaseElement {
  readonly #id = freshId("filter");

  @property({ attribute: false }) events: readonly EventRow[] = [];

  @state() private kind: SessionKind | "" = "";
  @state() private wanted = "";
  @state() private text = "";

  protected override render(): TemplateResult {
    const t = adminStrings();
    const found = this.events.filter((event) => this.#fits(event)).slice(-SHOWN);
    return html`<section class="card flush" aria-label=${t.events}>
      <div class="filters">${this.#filters()}</div>
      ${
        found.length === 0
          ? emptyNote("info", t.noEvents, t.noEventsHint)
          : html`<ol role="list" class="events">
              ${repeat(found.toReversed(), ({ id }) => id, line)}
            </ol>`
      }
    </section>`;
  }

  #filters(): TemplateResult {
    const t = adminStrings();
    return html`${select<SessionKind | "">({
      label: t.kind,
      value: this.kind,
      options: [
        { value: "", label: t.anyKind },
        ...KINDS.map((value) => ({ value, label: kindName(value) })),
      ],
      onChange: (kind) => {
        this.kind = kind;
      },
    })}
    ${select({
      label: t.state,
      value: this.wanted,
      options: [
        { value: "", label: t.anyState },
        ...STATES.map((value) => ({ value, label: named(stateStrings().states, value) })),
      ],
      onChange: (wanted) => {
        this.wanted = wanted;
      },
    })}
    <div class="field grow">
      <label for=${this.#id}>${t.search}</label>
      <input
        class="input"
        id=${this.#id}
        type="search"
        placeholder=${t.filter}
        .value=${this.text}
        @input=${(event: Event) => {
          this.text = (event.target as HTMLInputElement).value;
        }}
      />
    </div>`;
  }

  #fits(event: EventRow): boolean {
    if (this.kind !== "" && event.kind !== this.kind) return false;
    if (this.wanted !== "" && event.state !== this.wanted) return false;
    const text = this.text.trim().toLowerCase();
    return [event.session, event.worker, event.edge].some((id) => id.toLowerCase().includes(text));
  }
}

function line(event: EventRow): TemplateResult {
  const t = adminStrings();
  const why = event.ask ? named(stateStrings().asks, event.ask) : event.reason;
  return html`<li>
    <time class="tiny soft number" datetime=${new Date(event.at).toISOString()}>${time(event.at)}</time>
    ${stateBadge(stateStrings().states, event.state)}
    <span class="grow">${sessionName(event.session, event.kind)}</span>
    <span class="small soft about">
      ${why === null ? nothing : named(stateStrings().reasons, why)}
      ${why === null && event.worker ? html`<span class="id">${event.worker}</span>` : nothing}
    </span>
    ${
      event.state === "ended" && event.recording
        ? html`<a class="small" href="/s/${event.recording}" aria-label=${t.openOne(event.session)}
            >${t.recording}</a
          >`
        : html`<span></span>`
    }
  </li>`;
}

function time(at: number): string {
  return new Intl.DateTimeFormat(tag(), { timeStyle: "medium" }).format(new Date(at));
}
