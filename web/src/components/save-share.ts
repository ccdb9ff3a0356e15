import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { saveRecording, uploadRecording } from "../session/upload-recording.ts";
import { tellProblem } from "../shell/problem.ts";
import { dialog } from "../ui/dialog.ts";
import { type Changed, Element } from "../ui/element.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import { saveShareWords as words } from "./save-share-words.ts";
import "./save-share.css";

/** What is left of a conversation: save what the browser recorded, open and share what the server did. */
@customElement("an-save-share")
export class SaveShare extends Element {
  /** Null: the server keeps nothing. */
  @property({ attribute: false }) recordingId: string | null = null;
  @property({ attribute: false }) sound: Blob | null = null;
  @property({ attribute: false }) film: Blob | null = null;
  /** Begins the name of a saved file. The recording's id must not be in it: it opens the recording. */
  @property() stem = "conversation";

  @state() private sharing = false;
  @state() private busy = false;
  @state() private uploaded: readonly Blob[] = [];

  protected override willUpdate(changed: Changed<this>): void {
    if (!changed.has("recordingId")) return;
    this.sharing = false;
    this.uploaded = [];
  }

  protected override render(): TemplateResult {
    const say = words();
    return html`<section class="card" aria-label=${say.title}>
      ${this.sound ? this.#take("voice", say.sound, say.soundHint, this.sound) : nothing}
      ${this.film ? this.#take("camera", say.film, say.filmHint, this.film) : nothing}
      ${this.recordingId === null ? this.#nothing() : this.#server(this.recordingId)}
    </section>
    ${this.recordingId === null ? nothing : this.#links(this.recordingId)}`;
  }

  #take(sign: IconName, title: string, hint: string, take: Blob): TemplateResult {
    const say = words();
    const done = this.uploaded.includes(take);
    return row(
      sign,
      title,
      hint,
      html`<button
          class="button small"
          aria-label=${say.saveWhat(title)}
          @click=${() => saveRecording(`${this.stem}-${stamp()}`, take)}
        >
          ${icon("download")} ${say.save}
        </button>
        ${
          this.recordingId === null
            ? nothing
            : html`<button
                class="button small square"
                title=${done ? say.uploaded : say.upload}
                aria-label=${done ? say.uploaded : say.uploadWhat(title)}
                ?disabled=${this.busy || done}
                @click=${() => this.#upload(take)}
              >
                ${icon(done ? "check" : "upload")}
              </button>`
        }`,
    );
  }

  #nothing(): TemplateResult {
    return html`<p class="small soft">${words().nothing}</p>`;
  }

  #server(recordingId: string): TemplateResult {
    const say = words();
    const path = `/s/${encodeURIComponent(recordingId)}`;
    return row(
      "record",
      say.server,
      say.serverHint,
      html`<a class="button small" href=${path} target="_blank" rel="noopener">${say.open}</a>
        <button class="button small" @click=${() => this.#share()}>${icon("share")} ${say.share}</button>`,
    );
  }

  #links(recordingId: string): TemplateResult {
    return dialog({
      open: this.sharing,
      title: words().share,
      body: html`<an-share-links .recordingId=${recordingId}></an-share-links>`,
      onClose: () => {
        this.sharing = false;
      },
    });
  }

  #share(): void {
    void import("./share-links.ts");
    this.sharing = true;
  }

  async #upload(take: Blob): Promise<void> {
    const { recordingId } = this;
    if (recordingId === null) return;
    this.busy = true;
    try {
      await uploadRecording(recordingId, take);
      this.uploaded = [...this.uploaded, take];
      toast({ tone: "good", title: words().uploaded });
    } catch (error) {
      tellProblem(error, words().notUploaded);
    } finally {
      this.busy = false;
    }
  }
}

function row(sign: IconName, title: string, hint: string, actions: TemplateResult): TemplateResult {
  return html`<div class="take">
    ${icon(sign)}
    <div class="grow">
      <p class="small strong">${title}</p>
      <p class="tiny soft">${hint}</p>
    </div>
    <div class="row tight still">${actions}</div>
  </div>`;
}

/** `2026-11-21-1412`, by the clock on the wall. */
function stamp(now: Date = new Date()): string {
  const local = new Date(now.getTime() - now.getTimezoneOffset() * 60_000).toISOString();
  return local.slice(0, 16).replace("T", "-").replace(":", "");
}
