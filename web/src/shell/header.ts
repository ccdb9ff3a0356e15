import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import type { PageInfo } from "../api/answers.ts";
import { apps } from "../api/catalog.ts";
import { sitePath, siteUrl } from "../api/site.ts";
import { common } from "../i18n/common.ts";
import { choose, language } from "../i18n/language.ts";
import { flag, Settings, Store, StoreController } from "../state/store.ts";
import { localValues } from "../storage/browser-values.ts";
import { BaseElement } from "../ui/base-element.ts";
import { toggle } from "../ui/controls.ts";
import { dialog } from "../ui/dialog.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { showError } from "./errors.ts";

/** The enabled pages. All pages until it is known, so that nothing moves when it is. */
export const menu = new Store<readonly PageInfo[]>([
  { app_id: "audio_duplex", name: "", route: "/audio_duplex" },
  { app_id: "omni", name: "", route: "/omni" },
  { app_id: "turnbased", name: "", route: "/turnbased" },
  { app_id: "half_duplex_audio", name: "", route: "/half_duplex" },
]);

const ICONS: Record<string, IconName> = {
  turnbased: "chat",
  half_duplex_audio: "turns",
  omni: "camera",
  audio_duplex: "phone",
};

/** The path of this page, as the server names it. */
export const address = new Store(sitePath());

/** Changes the path without loading a page. */
export function moveTo(path: string): void {
  history.replaceState(null, "", siteUrl(path));
  address.set(path);
}

/** Loads the enabled pages. Rejects with ApiError. */
export async function loadMenu(): Promise<void> {
  menu.set(await apps());
}

/** Returns the translated name of a page, or the server's name. */
export function pageName(app: PageInfo): string {
  const names: Readonly<Record<string, string>> = common().apps;
  return names[app.app_id] ?? app.name;
}

export function pageIcon(app: PageInfo): IconName {
  return ICONS[app.app_id] ?? "voice";
}

/** The address of another page with the preset of this one. Its presets may have the same id. */
export function withPreset(route: string, preset: string | null): string {
  const url = siteUrl(route);
  return preset === null ? url : `${url}?preset=${encodeURIComponent(preset)}`;
}

/** Loads the texts, which a first visit does not need. Returns the help of the page at a path. */
export type LoadHelp = () => Promise<(path: string) => TemplateResult>;

const WRITING = "input:not([type=range]), textarea, select, [contenteditable]";

const isOpen = new Store(false);
const settings = new Settings("help", 1, { key: flag(true) });

/** A button that opens the help. Pages without a help drawer must not show it. */
export function helpButton(): TemplateResult {
  const { title } = common().help;
  return html`<button
    class="button quiet square"
    aria-label=${title}
    title="${title} (?)"
    aria-haspopup="dialog"
    aria-keyshortcuts="?"
    @click=${() => isOpen.set(true)}
  >
    ${icon("help")}
  </button>`;
}

/** The help of a page, at the right edge. The key `?` opens and closes it. */
@customElement("an-help-drawer")
export class HelpDrawer extends BaseElement {
  readonly #open = new StoreController(this, isOpen);
  readonly #settings = new StoreController(this, settings);

  @property({ attribute: false }) load!: LoadHelp;

  @state() private help: ((path: string) => TemplateResult) | null = null;

  constructor() {
    super();
    new StoreController(this, address);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    addEventListener("keydown", this.#onKey);
  }

  override disconnectedCallback(): void {
    removeEventListener("keydown", this.#onKey);
    super.disconnectedCallback();
  }

  protected override willUpdate(): void {
    if (!this.#open.value || this.help) return;
    this.load().then((help) => {
      this.help = help;
    }, showError);
  }

  protected override render(): TemplateResult {
    const { help, loading } = common();
    return dialog({
      open: this.#open.value,
      title: help.title,
      drawer: true,
      body: html`<div class="help-text">
        ${this.help?.(address.value) ?? html`<p class="soft">${loading}</p>`}
        ${toggle({
          label: help.key,
          checked: this.#settings.value.key,
          onChange: (key) => settings.update({ key }),
        })}
      </div>`,
      onClose: () => isOpen.set(false),
    });
  }

  readonly #onKey = (event: KeyboardEvent): void => {
    if (event.key !== "?" || event.defaultPrevented || !settings.value.key) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const isWriting = event.target instanceof Element && event.target.matches(WRITING);
    const isOtherDialog = !isOpen.value && document.querySelector("dialog[open]") !== null;
    if (isWriting || isOtherDialog) return;
    event.preventDefault();
    isOpen.set(!isOpen.value);
  };
}

type Theme = "system" | "light" | "dark";

const KEY = "antiphon.theme";

/** Light, dark, or the system setting. */
export const theme = new Store<Theme>(remembered());
apply(theme.value);
theme.subscribe((value) => {
  localValues.set(KEY, value);
  apply(value);
});

function remembered(): Theme {
  const text = localValues.get(KEY);
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
        <a class="brand" href=${siteUrl("/")} aria-label="Antiphon, ${nav.home}">${mark()}<span>Antiphon</span></a>
        ${this.bare ? nothing : this.#nav()}
        <div class="tools">
          ${this.help ? helpButton() : nothing} ${this.#languageButton()} ${this.#themeButton("square")} ${this.bare ? nothing : this.#menuButton()}
        </div>
      </header>`;
  }

  #nav(): TemplateResult {
    return html`<nav id="main-nav" aria-label=${common().nav.label} class=${this.open ? "open" : ""}>
      ${this.#menu.value.map((app) => link(app, this.#address.value))}${this.#themeButton("named")}
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

  /** With its name it is for the menu of a phone. */
  #themeButton(form: "square" | "named"): TemplateResult {
    const { nav } = common();
    const now = this.#theme.value;
    const label = `${nav.theme}: ${nav[now]}`;
    return html`<button
      class="button quiet theme ${form}"
      aria-label=${label}
      title=${label}
      @click=${() => theme.set(NEXT[now])}
    >
      ${icon(THEME_ICONS[now])}${form === "named" ? html`<span>${label}</span>` : nothing}
    </button>`;
  }

  #onKey(event: KeyboardEvent): void {
    if (event.key === "Escape") this.open = false;
  }
}

function link(app: PageInfo, path: string): TemplateResult {
  return html`<a href=${siteUrl(app.route)} aria-current=${path === app.route ? "page" : nothing}>${pageName(app)}</a>`;
}

/** The logo: two waveforms. */
function mark(): TemplateResult {
  return html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <path class="model" d="M4 13v6M8.8 8v16M13.6 11v10" />
    <path class="user" d="M18.4 12v8M23.2 8v16M28 13v6" />
  </svg>`;
}
