import type { SessionKind } from "../../api/answers.ts";
import { siteUrl } from "../../api/site.ts";
import "./confirm-dialog.ts";
import "./recordings.ts";
import "./settings.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { deleteKey } from "../../api/http.ts";
import { formatDateTime, tag } from "../../i18n/language.ts";
import { showError } from "../../shell/errors.ts";
import { mount } from "../../shell/shell.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement, freshId } from "../../ui/base-element.ts";
import { select } from "../../ui/controls.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { queueTable, sessionTable, summary, workerCards } from "./live.ts";
import { EMPTY_SYSTEM, type EventRow, LiveFeed } from "./live-state.ts";
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
import "./page.css";

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
        ? html`<a class="small" href=${siteUrl(`/s/${event.recording}`)} aria-label=${t.openOne(event.session)}
            >${t.recording}</a
          >`
        : html`<span></span>`
    }
  </li>`;
}

function time(at: number): string {
  return new Intl.DateTimeFormat(tag(), { timeStyle: "medium" }).format(new Date(at));
}

const PARTS = {
  live: "voice",
  recordings: "record",
  voices: "speaker",
  settings: "settings",
  events: "file",
} as const satisfies Record<string, IconName>;
type Part = keyof typeof PARTS;

const TONES = { connecting: "", open: "good live", lost: "caution", refused: "danger" } as const;

/** The admin page. */
@customElement("an-admin-page")
export class AdminPage extends BaseElement {
  readonly #feed = new LiveFeed();
  readonly #live = new StoreController(this, this.#feed.state);
  #ticking = 0;

  @state() private shown: Part = chosen();

  override connectedCallback(): void {
    super.connectedCallback();
    addEventListener("hashchange", this.#choose);
    this.#ticking = window.setInterval(() => this.requestUpdate(), 1000); // updates ages
    this.#feed.start();
  }

  override disconnectedCallback(): void {
    this.#feed.stop();
    clearInterval(this.#ticking);
    removeEventListener("hashchange", this.#choose);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const t = adminStrings();
    const { connection } = this.#live.value;
    return html`<div class="page-head">
        <h1>${t.title}</h1>
        <span class="badge dot ${TONES[connection]}" role="status">${t.connection[connection]}</span>
      </div>
      ${connection === "refused" ? this.#refused() : html`${this.#tabs()} ${this.#outage()} ${this.#part()}`}
      <an-confirm-dialog></an-confirm-dialog>`;
  }

  #tabs(): TemplateResult {
    const t = adminStrings();
    return html`<nav class="tabs" aria-label=${t.parts}>
      ${(Object.keys(PARTS) as Part[]).map(
        (part) => html`<a href="#${part}" aria-current=${part === this.shown ? "page" : nothing}
          >${icon(PARTS[part])} ${t[part]}</a
        >`,
      )}
    </nav>`;
  }

  #part(): TemplateResult {
    const { connection, system, skew } = this.#live.value;
    const now = Date.now() - skew;
    // Without any update nothing is known, such as whether a worker runs.
    const isUnknown = system === EMPTY_SYSTEM && ["live", "events"].includes(this.shown);
    if (connection === "connecting" || isUnknown)
      return html`<div class="empty"><span class="spinner"></span></div>`;
    switch (this.shown) {
      case "live":
        return html`${summary(system, now)} ${workerCards(system.workers)} ${sessionTable(system, now)}
        ${queueTable(system.queue, now)}`;
      case "recordings":
        return html`<an-admin-recordings></an-admin-recordings>`;
      case "voices":
        import("./voices.ts").catch((error: unknown) => showError(error));
        return html`<an-admin-voices></an-admin-voices>`;
      case "settings":
        return html`<div class="settings">
          <an-admin-app-switches></an-admin-app-switches><an-admin-estimates></an-admin-estimates>
        </div>`;
      case "events":
        return html`<an-admin-events .events=${system.events}></an-admin-events>`;
    }
  }

  #outage(): TemplateResult | typeof nothing {
    const { connection, system } = this.#live.value;
    if (connection === "connecting" || system.redis) return nothing;
    const t = adminStrings();
    return html`<div class="callout danger" role="alert">
      ${icon("alert")}
      <div><p class="strong">${t.outage}</p><p>${t.outageHint(formatDateTime(system.at))}</p></div>
    </div>`;
  }

  #refused(): TemplateResult {
    const t = adminStrings();
    const { problem } = this.#live.value;
    return html`<div class="card empty">
      ${icon("key")}<strong>${t.refused}</strong>
      <p>${problem?.status === 403 ? problem.message : t.refusedHint}</p>
      ${
        problem?.status === 403
          ? nothing
          : html`<button class="button primary" @click=${() => this.#again()}>${t.enter}</button>`
      }
    </div>`;
  }

  #again(): void {
    deleteKey("admin");
    this.#feed.start();
  }

  readonly #choose = (): void => {
    this.shown = chosen();
  };
}

function chosen(): Part {
  const name = location.hash.slice(1);
  return name in PARTS ? (name as Part) : "live";
}

mount({
  help: async () => (await import("../help.ts")).pageHelp,
  title: () => adminStrings().title,
  description: () => adminStrings().description,
  content: () => html`<an-admin-page></an-admin-page>`,
});
