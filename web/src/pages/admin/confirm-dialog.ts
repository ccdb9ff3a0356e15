import { html, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { common } from "../../i18n/common.ts";
import { Store, StoreController } from "../../state/store.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { dialog } from "../../ui/dialog.ts";

/** A confirmation of an action that affects others. */
export interface ConfirmRequest {
  readonly title: string;
  readonly text: string;
  readonly yes: string;
  readonly run: () => void;
}

const open = new Store<ConfirmRequest | null>(null);

export function confirmAction(question: ConfirmRequest): void {
  open.set(question);
}

/** The confirmation dialog. A page has one. */
@customElement("an-confirm-dialog")
export class ConfirmDialog extends BaseElement {
  readonly #open = new StoreController(this, open);

  protected override render(): TemplateResult {
    const question = this.#open.value;
    return dialog({
      open: question !== null,
      title: question?.title ?? "",
      body: html`<p class="soft">${question?.text}</p>`,
      footer: html`<button class="button" @click=${close}>${common().cancel}</button>
        <button
          class="button danger"
          @click=${() => {
            close();
            question?.run();
          }}
        >
          ${question?.yes}
        </button>`,
      onClose: close,
    });
  }
}

function close(): void {
  open.set(null);
}
