import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { forget } from "../../api/key.ts";
import { moment } from "../../i18n/format.ts";
import { Watch } from "../../state/store.ts";
import { Element } from "../../ui/element.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { LiveFeed } from "./live-feed.ts";
import { queue } from "./queue.ts";
import { sessions } from "./sessions.ts";
import { summary } from "./summary.ts";
import { words } from "./words.ts";
import { workers } from "./workers.ts";
import "./page.css";
import "./settings.css";
import "./tables.css";
import "./estimates.ts";
import "./events.ts";
import "./question.ts";
import "./recordings.ts";
import "./switches.ts";

const PARTS = {
  live: "voice",
  recordings: "record",
  settings: "settings",
  events: "file",
} as const satisfies Record<string, IconName>;
type Part = keyof typeof PARTS;

const TONES = { connecting: "", open: "good live", lost: "caution", refused: "danger" } as const;

/** Watch the system, and lend a hand. */
@customElement("an-admin-page")
export class AdminPage extends Element {
  readonly #feed = new LiveFeed();
  readonly #live = new Watch(this, this.#feed.state);
  #ticking = 0;

  @state() private shown: Part = chosen();

  override connectedCallback(): void {
    super.connectedCallback();
    addEventListener("hashchange", this.#choose);
    this.#ticking = window.setInterval(() => this.requestUpdate(), 1000); // ages grow
    this.#feed.start();
  }

  override disconnectedCallback(): void {
    this.#feed.stop();
    clearInterval(this.#ticking);
    removeEventListener("hashchange", this.#choose);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const say = words();
    const { link } = this.#live.value;
    return html`<div class="page-head">
        <h1>${say.title}</h1>
        <span class="badge dot ${TONES[link]}" role="status">${say.link[link]}</span>
      </div>
      ${link === "refused" ? this.#refused() : html`${this.#tabs()} ${this.#outage()} ${this.#part()}`}
      <an-admin-question></an-admin-question>`;
  }

  #tabs(): TemplateResult {
    const say = words();
    return html`<nav class="tabs" aria-label=${say.parts}>
      ${(Object.keys(PARTS) as Part[]).map(
        (part) => html`<a href="#${part}" aria-current=${part === this.shown ? "page" : nothing}
          >${icon(PARTS[part])} ${say[part]}</a
        >`,
      )}
    </nav>`;
  }

  #part(): TemplateResult {
    const { link, system, skew } = this.#live.value;
    const now = Date.now() - skew;
    if (link === "connecting") return html`<div class="empty"><span class="spinner"></span></div>`;
    switch (this.shown) {
      case "live":
        return html`${summary(system, now)} ${workers(system.workers)} ${sessions(system, now)}
        ${queue(system.queue, now)}`;
      case "recordings":
        return html`<an-admin-recordings></an-admin-recordings>`;
      case "settings":
        return html`<div class="settings">
          <an-admin-switches></an-admin-switches><an-admin-estimates></an-admin-estimates>
        </div>`;
      case "events":
        return html`<an-admin-events .events=${system.events}></an-admin-events>`;
    }
  }

  #outage(): TemplateResult | typeof nothing {
    const { link, system } = this.#live.value;
    if (link === "connecting" || system.redis) return nothing;
    const say = words();
    return html`<div class="callout danger" role="alert">
      ${icon("alert")}
      <div><p class="strong">${say.outage}</p><p>${say.outageHint(moment(system.at))}</p></div>
    </div>`;
  }

  #refused(): TemplateResult {
    const say = words();
    const { problem } = this.#live.value;
    return html`<div class="card empty">
      ${icon("key")}<strong>${say.refused}</strong>
      <p>${problem?.status === 403 ? problem.message : say.refusedHint}</p>
      ${
        problem?.status === 403
          ? nothing
          : html`<button class="button primary" @click=${() => this.#again()}>${say.enter}</button>`
      }
    </div>`;
  }

  #again(): void {
    forget("admin");
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
