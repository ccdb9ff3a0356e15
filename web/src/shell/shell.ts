import { html, render, type TemplateResult } from "lit";
import "../ui/styles.css";
import "../ui/theme.ts";
import "../ui/toasts.ts";
import "./header.ts";
import "./key-dialog.ts";
import { frontendDefaults } from "../api/catalog.ts";
import { language, suggest, tag } from "../i18n/language.ts";
import { showError } from "./errors.ts";
import { loadMenu } from "./menu.ts";

/** What a page is besides its content. */
export interface Page {
  /** The words before “· Antiphon” in the window's title. */
  readonly title: () => string;
  readonly content: () => TemplateResult;
  /** The session viewer is opened by a link and shows nothing of the rest. */
  readonly bare?: boolean;
}

/** Put a page together: header, content, messages, key dialog. Call it once, from `main.ts`. */
export function mount(page: Page): void {
  const draw = (): void => {
    document.documentElement.lang = tag();
    document.title = [page.title(), "Antiphon"].filter((part) => part !== "").join(" · ");
    render(frame(page), document.body);
  };
  document.querySelector("noscript")?.remove();
  language.subscribe(draw);
  draw();
  if (!page.bare) begin().catch((error: unknown) => showError(error));
}

function frame(page: Page): TemplateResult {
  return html`<an-header ?bare=${page.bare ?? false}></an-header>
    <main id="main" class="page" tabindex="-1">${page.content()}</main>
    <an-toasts></an-toasts>
    <an-key-dialog></an-key-dialog>`;
}

async function begin(): Promise<void> {
  const [defaults] = await Promise.all([frontendDefaults(), loadMenu()]);
  if (defaults.default_lang) suggest(defaults.default_lang);
}
