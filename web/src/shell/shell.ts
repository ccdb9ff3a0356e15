import "../ui/toasts.ts";
import { html, nothing, render, type TemplateResult } from "lit";
import { customElement, query } from "lit/decorators.js";
import { frontendDefaults } from "../api/catalog.ts";
import { KEY_PATTERN, type KeyRequest, keyRequest, saveKey } from "../api/http.ts";
import { common } from "../i18n/common.ts";
import { language, suggest, tag } from "../i18n/language.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement, freshId } from "../ui/base-element.ts";
import { dialog } from "../ui/dialog.ts";
import { FocusKeeper } from "../ui/focus-keeper.ts";
import { icon } from "../ui/icon.ts";
import { buildPage, inTurn, isBuilt } from "../ui/page-build.ts";
import { PressGuard } from "../ui/press-guard.ts";
import { onOwnNodes, watchTranslators } from "../ui/translated-nodes.ts";
import { loadCapabilities } from "./capabilities.ts";
import { showError } from "./errors.ts";
import { address, type LoadHelp, loadMenu } from "./header.ts";
import "@fontsource-variable/figtree/index.css";
import "../ui/base.css";
import "../ui/controls.css";
import "../ui/surfaces.css";
import "./shell.css";

/** Asks for the API key or the admin token if the server requires one. */
@customElement("an-key-dialog")
export class KeyDialog extends BaseElement {
  readonly #request = new StoreController(this, keyRequest);
  readonly #id = freshId("key");

  @query("input") private readonly input!: HTMLInputElement | null;

  protected override render(): TemplateResult {
    const request = this.#request.value;
    const { key } = common();
    return dialog({
      open: request !== null,
      title: request?.role === "admin" ? key.adminTitle : key.title,
      body: request ? this.#form(request) : html``,
      onClose: () => request?.answer(false),
    });
  }

  #form(request: KeyRequest): TemplateResult {
    const { key, cancel } = common();
    const admin = request.role === "admin";
    return html`<form
      class="stack"
      @submit=${(event: SubmitEvent) => {
        event.preventDefault();
        this.#send(request);
      }}
    >
      <p class="soft">${admin ? key.adminWhy : key.why}</p>
      <div class="field">
        <label for=${this.#id}>${admin ? key.adminLabel : key.label}</label>
        <input
          class="input"
          id=${this.#id}
          type="password"
          autocomplete="off"
          spellcheck="false"
          required
          autofocus
          minlength="16"
          maxlength="256"
          pattern=${KEY_PATTERN}
          title=${key.characters}
          @input=${(event: Event) => removeInvisible(event.target as HTMLInputElement)}
          aria-invalid=${request.refused}
          aria-describedby="${this.#id}-hint"
        />
        <p id="${this.#id}-hint" class=${request.refused ? "problem" : "hint"}>
          ${request.refused ? html`${key.wrong} ` : nothing}${admin ? key.adminKeep : key.keep}
        </p>
      </div>
      <div class="row apart">
        <button type="button" class="button quiet" @click=${() => request.answer(false)}>${cancel}</button>
        <button class="button primary">${key.go}</button>
      </div>
    </form>`;
  }

  #send(request: KeyRequest): void {
    const value = this.input?.value ?? "";
    if (value === "") return;
    saveKey(request.role, value);
    request.answer(true);
  }
}

/** Copied text may have spaces around it and characters without width in it. */
function removeInvisible(input: HTMLInputElement): void {
  const visible = input.value.replace(/[\s\p{Cf}]/gu, "");
  if (visible !== input.value) input.value = visible;
}

/** A page without the shell. */
interface Page {
  /** Title of the window before “· Antiphon”. */
  readonly title: () => string;
  /** For search engines. In English it is the text of the HTML file. */
  readonly description?: () => string;
  readonly content: () => TemplateResult;
  /** Without the menu, for users of a share link. */
  readonly bare?: boolean;
  readonly help?: LoadHelp;
}

/** Builds the page: header, content, toasts and key dialog. Call it once, in `page.ts`. */
export function mount(page: Page): void {
  const shown = isOutdated() ? { ...page, content: outdatedNotice } : page;
  build(shown).catch((error: unknown) => showError(error));
}

/** The newest of what pages need before they show anything. */
function isOutdated(): boolean {
  const names = ["Intl", "ResizeObserver", "WebSocket"];
  return names.some((name) => !(name in globalThis)) || !("toReversed" in Array.prototype);
}

function outdatedNotice(): TemplateResult {
  const { outdated, outdatedRemedy } = common().errors;
  return html`<div class="card empty">
    ${icon("alert")}
    <h1>${outdated}</h1>
    <p>${outdatedRemedy}</p>
  </div>`;
}

async function build(page: Page): Promise<void> {
  await Promise.all([documentParsed(), ...pendingStyles()]);
  let hasOverlays = false;
  const draw = (): void => {
    hasOverlays ||= isBuilt.value;
    document.documentElement.lang = tag();
    document.title = [page.title(), "Antiphon"].filter((part) => part !== "").join(" · ");
    const description = document.querySelector("meta[name=description]");
    if (page.description) description?.setAttribute("content", page.description());
    onOwnNodes(document.body, () => render(frame(page, hasOverlays), document.body));
  };
  for (const one of document.querySelectorAll("noscript, .not-started")) one.remove();
  for (const store of [language, address, isBuilt]) store.subscribe(draw);
  new FocusKeeper(document);
  watchTranslators(document.body);
  new PressGuard(document);
  const built = buildPage();
  await inTurn(draw);
  const data = page.bare ? undefined : inTurn(begin);
  await built;
  await data;
}

/** Scripts may run before the document is parsed. */
function documentParsed(): Promise<unknown> | undefined {
  if (document.readyState !== "loading") return undefined;
  return new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve));
}

/** Scripts may run before the style sheets are there, and canvas drawings read colors from these. */
function pendingStyles(): Promise<unknown>[] {
  const links = [...document.querySelectorAll<HTMLLinkElement>("link[rel=stylesheet]")];
  const events = ["load", "error"] as const;
  return links
    .filter(({ sheet }) => sheet === null)
    .map((link) => new Promise((done) => events.map((name) => link.addEventListener(name, done))));
}

/** The content is hidden until it is complete, so that nothing moves. */
function frame(page: Page, hasOverlays: boolean): TemplateResult {
  return html`<an-header ?bare=${page.bare ?? false} ?help=${page.help !== undefined}></an-header>
    <main id="main" class="page ${isBuilt.value ? "" : "incomplete"}" tabindex="-1">${page.content()}</main>
    ${hasOverlays ? overlays(page) : nothing}`;
}

function overlays(page: Page): TemplateResult {
  return html`<an-toasts></an-toasts>
    <an-key-dialog></an-key-dialog>
    ${page.help ? html`<an-help-drawer .load=${page.help}></an-help-drawer>` : nothing}`;
}

async function begin(): Promise<void> {
  void loadCapabilities();
  const [defaults] = await Promise.all([frontendDefaults(), loadMenu()]);
  if (defaults.default_lang) suggest(defaults.default_lang);
}
