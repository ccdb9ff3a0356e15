import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { savedName, saveRecording, uploadRecording } from "../session/browser-recording.ts";
import { UserTask } from "../shell/errors.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { dialog } from "../ui/dialog.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import { recordingActionsStrings } from "./recording-actions-strings.ts";
import { recordingSheetStrings } from "./recording-sheet-strings.ts";
import "./instant-replay.ts";
import "./recording-actions.css";

/** Actions after a session: save browser recordings, open and share the server recording. */
@customElement("an-recording-actions")
export class RecordingActions extends BaseElement {
  readonly #task = new UserTask(this);

  /** Null if the server did not record. */
  @property({ attribute: false }) recordingId: string | null = null;
  @property({ attribute: false }) audio: Blob | null = null;
  @property({ attribute: false }) video: Blob | null = null;
  /** Part of the names of saved files, see `savedName`. */
  @property() namePrefix = "conversation";

  @state() private sharing = false;
  @state() private uploaded: readonly Blob[] = [];

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (!changed.has("recordingId")) return;
    this.sharing = false;
    this.uploaded = [];
  }

  protected override render(): TemplateResult {
    const t = recordingActionsStrings();
    return html`<section class="card" aria-label=${t.title}>
      ${this.audio ? html`<an-instant-replay .audio=${this.audio} .recordingId=${this.recordingId}></an-instant-replay>` : nothing}
      ${this.audio ? this.#take("voice", t.audio, t.audioHint, this.audio) : nothing}
      ${this.video ? this.#take("camera", t.video, t.videoHint, this.video) : nothing}
      ${this.recordingId === null ? this.#nothing() : this.#server(this.recordingId)}
    </section>
    ${this.recordingId === null ? nothing : this.#links(this.recordingId)}`;
  }

  #take(sign: IconName, title: string, hint: string, take: Blob): TemplateResult {
    const t = recordingActionsStrings();
    const done = this.uploaded.includes(take);
    return row(
      sign,
      title,
      { hint },
      html`<button
          class="button small"
          aria-label=${t.saveWhat(title)}
          @click=${() => void saveRecording(savedName(this.namePrefix), take)}
        >
          ${icon("download")} ${t.save}
        </button>
        ${
          this.recordingId === null
            ? nothing
            : html`<button
                class="button small square"
                title=${done ? t.uploaded : t.upload}
                aria-label=${done ? t.uploaded : t.uploadWhat(title)}
                ?disabled=${this.#task.isRunning || done}
                @click=${() => this.#upload(take)}
              >
                ${icon(done ? "check" : "upload")}
              </button>`
        }`,
    );
  }

  #nothing(): TemplateResult {
    return html`<p class="small soft">${recordingActionsStrings().nothing}</p>`;
  }

  #server(recordingId: string): TemplateResult {
    const t = recordingActionsStrings();
    const path = `/s/${encodeURIComponent(recordingId)}`;
    return row(
      "record",
      t.server,
      { hint: t.serverHint, shown: true },
      html`<a class="button small" href=${path} target="_blank" rel="noopener">${t.open}</a>
        <button class="button small" @click=${() => this.#share()}>${icon("share")} ${t.share}</button>`,
    );
  }

  #links(recordingId: string): TemplateResult {
    return dialog({
      open: this.sharing,
      title: recordingSheetStrings().title,
      body: html`<an-recording-sheet .recordingId=${recordingId}></an-recording-sheet>`,
      onClose: () => {
        this.sharing = false;
      },
    });
  }

  #share(): void {
    void import("./recording-sheet.ts");
    this.sharing = true;
  }

  async #upload(take: Blob): Promise<void> {
    const { recordingId } = this;
    if (recordingId === null) return;
    await this.#task.run(async () => {
      await uploadRecording(recordingId, take);
      this.uploaded = [...this.uploaded, take];
      toast({ tone: "good", title: recordingActionsStrings().uploaded });
    }, recordingActionsStrings().notUploaded);
  }
}

function row(
  sign: IconName,
  title: string,
  { hint, shown = false }: { hint: string; shown?: boolean },
  actions: TemplateResult,
): TemplateResult {
  return html`<div class="recording-item">
    ${icon(sign)}
    <div class="grow" title=${hint}>
      <p class="small strong">${title}</p>
      ${shown ? html`<p class="tiny soft">${hint}</p>` : nothing}
    </div>
    <div class="row tight still">${actions}</div>
  </div>`;
}
