import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import type { AppEntry } from "../../api/catalog.ts";
import { common } from "../../i18n/common.ts";
import { iconOf, menu, nameOf } from "../../shell/menu.ts";
import { Watch } from "../../state/store.ts";
import { dialog } from "../../ui/dialog.ts";
import { Element } from "../../ui/element.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { voices } from "./voices.ts";
import { words } from "./words.ts";
import "./page.css";
import "./service-badge.ts";

const FIRST = "audio_duplex";

/** Where everyone arrives: what this is, how to begin, whether there is room. */
@customElement("an-home-page")
export class HomePage extends Element {
  readonly #menu = new Watch(this, menu);

  @state() private checking = false;

  protected override render(): TemplateResult {
    return html`${this.#hero()} ${this.#modes()} ${facts()} ${footer()} ${this.#check()}`;
  }

  #hero(): TemplateResult {
    const say = words();
    const first = this.#menu.value?.find(({ app_id }) => app_id === FIRST) ?? this.#menu.value?.[0];
    return html`<section class="hero">
      <div class="stack loose">
        <an-service-badge></an-service-badge>
        <h1>${say.headline}</h1>
        <p class="lead">${say.lead}</p>
        <div class="row">
          ${first ? startLink(first) : nothing}
          <button class="button large" @click=${() => this.#open()}>${icon("mic")} ${say.check}</button>
        </div>
      </div>
      ${voices()}
    </section>`;
  }

  #modes(): TemplateResult {
    const say = words();
    const all = this.#menu.value;
    if (all?.length === 0) {
      return html`<div class="card empty">
        ${icon("pause")}<strong>${say.noModes}</strong>
        <p>${say.noModesHint}</p>
      </div>`;
    }
    return html`<section class="stack" aria-labelledby="modes">
      <h2 id="modes">${say.modes}</h2>
      <ul role="list" class="modes">
        ${(all ?? []).map(mode)}
      </ul>
    </section>`;
  }

  #check(): TemplateResult {
    return dialog({
      open: this.checking,
      title: common().preflight.title,
      body: html`<an-preflight></an-preflight>`,
      footer: html`<button class="button primary" @click=${() => this.#close()}>
        ${common().preflight.done}
      </button>`,
      onClose: () => this.#close(),
    });
  }

  async #open(): Promise<void> {
    await import("../../components/preflight.ts");
    this.checking = true;
  }

  #close(): void {
    this.checking = false;
  }
}

function startLink(app: AppEntry): TemplateResult {
  const label = app.app_id === FIRST ? words().start : nameOf(app);
  return html`<a class="button primary large" href=${app.route}>${icon(iconOf(app))} ${label}</a>`;
}

function mode(app: AppEntry): TemplateResult {
  const about: Readonly<Record<string, string>> = words().about;
  return html`<li>
    <a class="card mode" href=${app.route}>
      <span class="sign">${icon(iconOf(app))}</span>
      <span class="stack tight">
        <strong>${nameOf(app)}</strong>
        <span class="small soft">${about[app.app_id] ?? app.name}</span>
      </span>
      <span class="go">${icon("arrow")}</span>
    </a>
  </li>`;
}

function facts(): TemplateResult {
  const say = words().facts;
  const rows: readonly (readonly [IconName, string, string])[] = [
    ["voice", say.interrupt, say.interruptText],
    ["refresh", say.resume, say.resumeText],
    ["key", say.private, say.privateText],
  ];
  return html`<ul role="list" class="tiles promises">
    ${rows.map(
      ([name, title, text]) => html`<li>
        ${icon(name)}
        <h3>${title}</h3>
        <p class="small soft">${text}</p>
      </li>`,
    )}
  </ul>`;
}

function footer(): TemplateResult {
  const say = words();
  return html`<footer class="row apart small soft">
    <p>${say.footer}</p>
    <nav class="row" aria-label=${say.service}>
      <a href="/docs">${say.api}</a>
      <a href="/admin">${say.admin}</a>
    </nav>
  </footer>`;
}
