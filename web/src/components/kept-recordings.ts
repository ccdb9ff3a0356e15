import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { formatDateTime } from "../i18n/format.ts";
import { savedName, saveRecording } from "../session/browser-recording.ts";
import { showError } from "../shell/errors.ts";
import { ownConversations } from "../storage/conversations.ts";
import {
  abandonedRecordings,
  deleteKept,
  type KeptRecording,
  loadKept,
} from "../storage/kept-recordings.ts";
import { BaseElement } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import "./own-conversations.ts";
import { recordingActionsStrings } from "./recording-actions-strings.ts";

/**
 * Offers the newest recording of this browser that was not saved before its page was closed, and the
 * list of this browser's conversations.
 */
@customElement("an-kept-recordings")
export class KeptRecordings extends BaseElement {
  @state() private kept: readonly KeptRecording[] = [];
  @state() private hasConversations = false;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#load().catch(() => undefined); // a browser without a database keeps nothing
  }

  protected override render(): TemplateResult {
    const [newest] = this.kept;
    const list = this.hasConversations
      ? html`<an-own-conversations></an-own-conversations>`
      : nothing;
    if (!newest) return html`${list}`;
    const t = recordingActionsStrings();
    const name = newest.type.startsWith("video") ? t.video : t.audio;
    return html`<div class="callout" role="region" aria-label=${t.kept}>
      ${icon("record")}
      <div class="grow stack tight">
        <p class="strong">${t.kept}</p>
        <p class="small soft">${name}, ${formatDateTime(newest.startedAt)}. ${t.keptHint}</p>
        <div class="row tight">
          <button class="button small" @click=${() => this.#save(newest)}>
            ${icon("download")} ${t.save}
          </button>
          <button class="button small quiet" @click=${() => this.#remove(newest)}>
            ${icon("trash")} ${t.discard}
          </button>
          ${list}
        </div>
      </div>
    </div>`;
  }

  async #load(): Promise<void> {
    const all = await ownConversations();
    this.hasConversations = all.length > 0;
    this.kept = await abandonedRecordings();
  }

  async #save(one: KeptRecording): Promise<void> {
    try {
      await saveRecording(savedName("conversation", one.startedAt), await loadKept(one));
      this.#drop(one);
    } catch (error) {
      showError(error);
    }
  }

  #remove(one: KeptRecording): void {
    deleteKept(one.id).catch((error: unknown) => showError(error));
    this.#drop(one);
  }

  #drop(one: KeptRecording): void {
    this.kept = this.kept.filter((other) => other !== one);
  }
}
