import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import type { AppEntry } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import { choose, language } from "../i18n/language.ts";
import { Store, StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import { helpButton } from "./help-drawer.ts";
import { address, menu, pageName } from "./menu.ts";

export type Theme = "system" | "light" | "dark";

const KEY = "antiphon.theme";

/** Light, dark, or the system setting. */
export const theme = new Store<Theme>(remembered());
apply(theme.value);
theme.subscribe((value) => {
  localStorage.setItem(KEY, value);
  apply(value);
});

function remembered(): Theme {
  const text = localStorage.getItem(KEY);
  return text === "light" || text === "dark" ? text : "system";
}

function apply(value: Theme): void {
  const root = document.documentElement;
  if (value === "system") root.removeAttribute("data-theme");
  else root.dataset["theme"] = value;
}

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } as const;

/** The header of every page: navigation, language and theme. */
@customElement("an-header")
export class Header extends BaseElement {
  readonly #menu = new StoreController(this, menu);
  readonly #address = new StoreController(this, address);
  readonly #theme = new StoreController(this, theme);

  /** Hides the menu for users of a share link. */
  @property({ type: Boolean }) bare = false;
  /** Whether the page has help. */
  @property({ type: Boolean }) help = false;

  @state() private open = false;

  protected override render(): TemplateResult {
    const { nav } = common();
    return html`<a class="skip button primary" href="#main">${nav.skip}</a>
      <header @keydown=${this.#onKey}>
        <a class="brand" href="/" aria-label="Antiphon, ${nav.home}">${mark()}<span>Antiphon</span></a>
        ${this.bare ? nothing : this.#nav()}
        <div class="tools">
          ${this.help ? helpButton() : nothing} ${this.#languageButton()} ${this.#themeButton()} ${this.bare ? nothing : this.#menuButton()}
        </div>
      </header>`;
  }

  #nav(): TemplateResult {
    return html`<nav id="main-nav" aria-label=${common().nav.label} class=${this.open ? "open" : ""}>
      ${this.#menu.value.map((app) => link(app, this.#address.value))}
    </nav>`;
  }

  #menuButton(): TemplateResult {
    return html`<button
      class="button quiet square menu"
      aria-label=${common().nav.menu}
      aria-expanded=${this.open}
      aria-controls="main-nav"
      @click=${() => {
        this.open = !this.open;
      }}
    >
      ${icon(this.open ? "close" : "menu")}
    </button>`;
  }

  #languageButton(): TemplateResult {
    const other = language.value === "zh" ? "en" : "zh";
    const name = other === "zh" ? "中文" : "English";
    return html`<button class="button quiet" lang=${other} @click=${() => choose(other)}>
      ${name}
    </button>`;
  }

  #themeButton(): TemplateResult {
    const { nav } = common();
    const now = this.#theme.value;
    const label = `${nav.theme}: ${nav[now]}`;
    return html`<button
      class="button quiet square"
      aria-label=${label}
      title=${label}
      @click=${() => theme.set(NEXT[now])}
    >
      ${icon(THEME_ICONS[now])}
    </button>`;
  }

  #onKey(event: KeyboardEvent): void {
    if (event.key === "Escape") this.open = false;
  }
}

function link(app: AppEntry, path: string): TemplateResult {
  return html`<a href=${app.route} aria-current=${path === app.route ? "page" : nothing}>${pageName(app)}</a>`;
}

/** The logo: two waveforms. */
function mark(): TemplateResult {
  return html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <path class="model" d="M4 13v6M8.8 8v16M13.6 11v10" />
    <path class="user" d="M18.4 12v8M23.2 8v16M28 13v6" />
  </svg>`;
}
