import { html, nothing, type TemplateResult } from "lit";
import { customElement, query } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { common } from "../i18n/common.ts";
import { Store, StoreController } from "../state/store.ts";
import { BaseElement } from "./base-element.ts";
import { type IconName, icon } from "./icon.ts";

export type Tone = "info" | "good" | "caution" | "danger";

export interface Toast {
  readonly tone: Tone;
  /** What happened. */
  readonly title: string;
  /** What the user can do about it. */
  readonly remedy?: string;
  readonly action?: { readonly label: string; readonly run: () => void };
}

interface Shown extends Toast {
  readonly id: number;
}

const ICONS: Record<Tone, IconName> = {
  info: "info",
  good: "check",
  caution: "alert",
  danger: "alert",
};
const LIFE_MS: Record<Tone, number> = { info: 5000, good: 4000, caution: 9000, danger: 0 };
const AT_MOST = 4;

const shown = new Store<readonly Shown[]>([]);
let last = 0;

/** Shows a message. Errors stay until they are closed. Duplicates are ignored. */
export function toast(message: Toast): void {
  const others = shown.value.filter((other) => other.title !== message.title);
  last += 1;
  const id = last;
  shown.set([...others, { ...message, id }].slice(-AT_MOST));
  const life = message.action ? 0 : LIFE_MS[message.tone];
  if (life > 0) setTimeout(() => dismiss(id), life);
}

/** Removes all messages. */
export function clearToasts(): void {
  shown.set([]);
}

function dismiss(id: number): void {
  shown.set(shown.value.filter((other) => other.id !== id));
}

/** The container of messages. A page has one. */
@customElement("an-toasts")
export class Toasts extends BaseElement {
  readonly #shown = new StoreController(this, shown);

  @query("[popover]") private readonly box!: HTMLElement;

  /** Shown above open dialogs, because the newest top-layer element is on top. */
  protected override updated(): void {
    if (this.box.matches(":popover-open")) this.box.hidePopover();
    if (this.#shown.value.length > 0) this.box.showPopover();
  }

  protected override render(): TemplateResult {
    return html`<div popover="manual" role="region" aria-label=${common().messages} aria-live="polite">
      ${repeat(
        this.#shown.value,
        (message) => message.id,
        (message) => row(message),
      )}
    </div>`;
  }
}

function row(message: Shown): TemplateResult {
  const { action } = message;
  return html`<div class="toast ${message.tone}" role=${message.tone === "danger" ? "alert" : "status"}>
    ${icon(ICONS[message.tone])}
    <div class="grow">
      <p class="strong">${message.title}</p>
      ${message.remedy ? html`<p class="soft">${message.remedy}</p>` : nothing}
      ${
        action
          ? html`<button
              class="button small"
              @click=${() => {
                dismiss(message.id);
                action.run();
              }}
            >
              ${action.label}
            </button>`
          : nothing
      }
    </div>
    <button
      class="button quiet square small"
      aria-label=${common().close}
      @click=${() => dismiss(message.id)}
    >
      ${icon("close")}
    </button>
  </div>`;
}
