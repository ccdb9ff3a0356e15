import { html, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { common } from "../i18n/common.ts";
import { flag, Settings } from "../settings/settings.ts";
import { Store, StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { toggle } from "../ui/controls.ts";
import { dialog } from "../ui/dialog.ts";
import { icon } from "../ui/icon.ts";
import { showError } from "./errors.ts";
import { address } from "./menu.ts";

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
