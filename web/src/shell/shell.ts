import { html, nothing, render, type TemplateResult } from "lit";
import "../ui/styles.css";
import "../ui/theme.ts";
import "../ui/toasts.ts";
import "./header.ts";
import "./help-drawer.ts";
import "./key-dialog.ts";
import { frontendDefaults } from "../api/catalog.ts";
import { language, suggest, tag } from "../i18n/language.ts";
import { loadCapabilities } from "./capabilities.ts";
import { showError } from "./errors.ts";
import type { LoadHelp } from "./help-drawer.ts";
import { address, loadMenu } from "./menu.ts";

/** A page without the shell. */
export interface Page {
  /** Title of the window before “· Antiphon”. */
  readonly title: () => string;
  readonly content: () => TemplateResult;
  /** Without the menu, for users of a share link. */
  readonly bare?: boolean;
  readonly help?: LoadHelp;
}

/** Builds the page: header, content, toasts and key dialog. Call it once, in `main.ts`. */
export function mount(page: Page): void {
  const draw = (): void => {
    document.documentElement.lang = tag();
    document.title = [page.title(), "Antiphon"].filter((part) => part !== "").join(" · ");
    render(frame(page), document.body);
  };
  document.querySelector("noscript")?.remove();
  language.subscribe(draw);
  address.subscribe(draw);
  draw();
  if (!page.bare) begin().catch((error: unknown) => showError(error));
}

function frame(page: Page): TemplateResult {
  return html`<an-header ?bare=${page.bare ?? false} ?help=${page.help !== undefined}></an-header>
    <main id="main" class="page" tabindex="-1">${page.content()}</main>
    <an-toasts></an-toasts>
    <an-key-dialog></an-key-dialog>
    ${page.help ? html`<an-help-drawer .load=${page.help}></an-help-drawer>` : nothing}`;
}

async function begin(): Promise<void> {
  void loadCapabilities();
  const [defaults] = await Promise.all([frontendDefaults(), loadMenu()]);
  if (defaults.default_lang) suggest(defaults.default_lang);
}
