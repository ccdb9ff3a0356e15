import { html, nothing, type TemplateResult } from "lit";
import { ref } from "lit/directives/ref.js";
import { common } from "../i18n/common.ts";
import { icon } from "./icon.ts";

interface DialogOptions {
  readonly open: boolean;
  readonly title: string;
  readonly body: TemplateResult;
  readonly footer?: TemplateResult;
  readonly wide?: boolean;
  /** At the right edge, as high as the window. */
  readonly drawer?: boolean;
  /** Called on Escape, the close button, or a click outside. */
  readonly onClose: () => void;
}

/** A modal dialog. Render it always and set `open`. */
export function dialog({
  open,
  title,
  body,
  footer,
  wide = false,
  drawer = false,
  onClose,
}: DialogOptions): TemplateResult {
  return html`<dialog
    class="dialog ${wide ? "wide" : ""} ${drawer ? "drawer" : ""}"
    aria-label=${title}
    tabindex="-1"
    ${ref((element) => show(element, open))}
    @cancel=${(event: Event) => {
      event.preventDefault();
      onClose();
    }}
    @close=${(event: Event) => {
      // The event is late: after a dialog is closed, it may be open again by now.
      if (open && !(event.currentTarget as HTMLDialogElement).open) onClose();
    }}
    @click=${(event: MouseEvent) => {
      if (event.target === event.currentTarget && isBeside(event)) onClose();
    }}
  >
    ${
      open
        ? html`<header>
            <h2>${title}</h2>
            <button class="button quiet square" aria-label=${common().close} @click=${onClose}>
              ${icon("close")}
            </button>
          </header>
          <div class="body">${body}</div>
          ${footer ? html`<footer>${footer}</footer>` : nothing}`
        : nothing
    }
  </dialog>`;
}

function show(element: globalThis.Element | undefined, open: boolean): void {
  if (!(element instanceof HTMLDialogElement)) return;
  // After rendering, because the element may not be in the document yet.
  queueMicrotask(() => {
    if (open && !element.open && element.isConnected) {
      element.showModal();
      (element.querySelector<HTMLElement>("[autofocus]") ?? element).focus();
    }
    if (!open && element.open) element.close();
  });
}

/** The dialog includes its padding but not the backdrop. */
function isBeside(event: MouseEvent): boolean {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
  const across = event.clientX < box.left || event.clientX > box.right;
  return across || event.clientY < box.top || event.clientY > box.bottom;
}
