import { html, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { BaseElement } from "../ui/base-element.ts";
import { dialog } from "../ui/dialog.ts";
import { icon } from "../ui/icon.ts";
import { ownConversationsStrings } from "./conversation-strings.ts";

/** A button that opens the list of this browser's conversations. */
@customElement("an-own-conversations")
export class OwnConversations extends BaseElement {
  @state() private open = false;

  protected override render(): TemplateResult {
    const t = ownConversationsStrings();
    return html`<button class="button quiet small" aria-haspopup="dialog" @click=${() => this.#show()}>
        ${icon("clock")} <span>${t.title}</span>
      </button>
      ${dialog({
        open: this.open,
        title: t.title,
        wide: true,
        body: html`<an-conversation-list></an-conversation-list>`,
        onClose: () => {
          this.open = false;
        },
      })}`;
  }

  #show(): void {
    void import("./conversation-list.ts");
    this.open = true;
  }
}
