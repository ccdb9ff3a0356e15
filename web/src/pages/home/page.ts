import { html, nothing, type SVGTemplateResult, svg, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import type { AppEntry, Capabilities } from "../../api/catalog.ts";
import { common } from "../../i18n/common.ts";
import { capabilities } from "../../shell/capabilities.ts";
import { menu, pageIcon, pageName } from "../../shell/menu.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { dialog } from "../../ui/dialog.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { homeStrings } from "./strings.ts";
import "./page.css";
import "./service-badge.ts";

const FIRST = "audio_duplex";

/** The home page: modes, start button and server status. */
@customElement("an-home-page")
export class HomePage extends BaseElement {
  readonly #menu = new StoreController(this, menu);
  readonly #able = new StoreController(this, capabilities);

  @state() private checking = false;

  protected override render(): TemplateResult {
    return html`${this.#hero()} ${this.#modes()} ${facts()} ${footer()} ${this.#check()}`;
  }

  #hero(): TemplateResult {
    const t = homeStrings();
    const first = this.#menu.value.find(({ app_id }) => app_id === FIRST) ?? this.#menu.value[0];
    return html`<section class="hero">
      <div class="stack loose">
        <an-service-badge></an-service-badge>
        <h1>${t.headline}</h1>
        <p class="lead">${t.lead}</p>
        <div class="row">
          ${first ? startLink(first) : nothing}
          <button class="button large" @click=${() => this.#open()}>${icon("mic")} ${t.check}</button>
        </div>
      </div>
      ${voicesIllustration()}
    </section>`;
  }

  #modes(): TemplateResult {
    const t = homeStrings();
    const all = this.#menu.value;
    if (all.length === 0) {
      return html`<div class="card empty">
        ${icon("pause")}<strong>${t.noModes}</strong>
        <p>${t.noModesHint}</p>
      </div>`;
    }
    return html`<section class="stack" aria-labelledby="modes">
      <h2 id="modes">${t.modes}</h2>
      <ul role="list" class="modes">
        ${all.map((app) => mode(app, this.#able.value))}
      </ul>
    </section>`;
  }

  #check(): TemplateResult {
    return dialog({
      open: this.checking,
      title: common().deviceCheck.title,
      body: html`<an-device-check></an-device-check>`,
      footer: html`<button class="button primary" @click=${() => this.#close()}>
        ${common().deviceCheck.done}
      </button>`,
      onClose: () => this.#close(),
    });
  }

  async #open(): Promise<void> {
    await import("../../components/device-check.ts");
    this.checking = true;
  }

  #close(): void {
    this.checking = false;
  }
}

function startLink(app: AppEntry): TemplateResult {
  const label = app.app_id === FIRST ? homeStrings().start : pageName(app);
  return html`<a class="button primary large" href=${app.route}>${icon(pageIcon(app))} ${label}</a>`;
}

function mode(app: AppEntry, able: Capabilities | null): TemplateResult {
  const blind =
    app.app_id === "omni" && able?.sees === false && able.model !== null && !able.simulated;
  const about: Readonly<Record<string, string>> = homeStrings().about;
  return html`<li>
    <a class="card mode" href=${app.route}>
      <span class="sign">${icon(pageIcon(app))}</span>
      <span class="stack tight">
        <strong>${pageName(app)}</strong>
        <span class="small soft">${blind ? common().capabilities.blind(able.model) : (about[app.app_id] ?? app.name)}</span>
      </span>
      <span class="go">${icon("arrow")}</span>
    </a>
  </li>`;
}

function facts(): TemplateResult {
  const t = homeStrings().facts;
  const rows: readonly (readonly [IconName, string, string])[] = [
    ["voice", t.interrupt, t.interruptText],
    ["refresh", t.resume, t.resumeText],
    ["key", t.private, t.privateText],
  ];
  return html`<ul role="list" class="tiles features">
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
  const t = homeStrings();
  return html`<footer class="row apart small soft">
    <p>${t.footer}</p>
    <nav class="row" aria-label=${t.service}>
      <a href="/docs">${t.api}</a>
      <a href="/admin">${t.admin}</a>
    </nav>
  </footer>`;
}

/** Half heights of the bars. The voices mostly alternate. */
const MODEL_BARS = [
  3, 5, 10, 19, 30, 38, 33, 40, 27, 17, 10, 6, 3, 3, 4, 3, 3, 3, 5, 9, 17, 26, 22, 13,
];
const USER_BARS = [3, 3, 4, 3, 3, 3, 4, 3, 5, 11, 21, 31, 36, 28, 34, 24, 14, 8, 4, 3, 3, 3, 4, 3];

const STEP = 17;

/** Decorative waveform of two voices. */
export function voicesIllustration(): TemplateResult {
  return html`<svg class="voices" viewBox="0 0 408 232" aria-hidden="true">
    <g class="model">${MODEL_BARS.map((half, i) => bar(half, i, 66))}</g>
    <g class="user">${USER_BARS.map((half, i) => bar(half, i, 166))}</g>
  </svg>`;
}

function bar(half: number, i: number, middle: number): SVGTemplateResult {
  const x = 8.5 + i * STEP;
  return svg`<line x1=${x} x2=${x} y1=${middle - half} y2=${middle + half} .style=${`--turn: ${i}`} />`;
}
