import { html, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { common } from "../../i18n/common.ts";
import { Store, Watch } from "../../state/store.ts";
import { dialog } from "../../ui/dialog.ts";
import { Element } from "../../ui/element.ts";

/** What an operator is asked before something is done that others notice. */
export interface Question {
  readonly title: string;
  readonly text: string;
  readonly yes: string;
  readonly run: () => void;
}

const open = new Store<Question | null>(null);

export function ask(question: Question): void {
  open.set(question);
}

/** Where the question shows; the page has one. */
@customElement("an-admin-question")
export class AdminQuestion extends Element {
  readonly #open = new Watch(this, open);

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
