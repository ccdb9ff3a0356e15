import { html, nothing, type TemplateResult } from "lit";
import { customElement, query } from "lit/decorators.js";
import { type KeyRequest, keyRequest, saveKey } from "../api/key.ts";
import { common } from "../i18n/common.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement, freshId } from "../ui/base-element.ts";
import { dialog } from "../ui/dialog.ts";

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
    const value = this.input?.value.trim() ?? "";
    if (value === "") return;
    saveKey(request.role, value);
    request.answer(true);
  }
}
