import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { fetchApi } from "../api/http.ts";
import { keyFor } from "../api/key.ts";
import {
  archivePath,
  assetPath,
  type RecordingMeta,
  recordingComment,
  recordingMeta,
  saveComment,
} from "../api/recordings.ts";
import { isShareToken } from "../api/shares.ts";
import { common } from "../i18n/common.ts";
import { saveBlob, savedName, saveUrl } from "../session/browser-recording.ts";
import { UserTask } from "../shell/errors.ts";
import { ownConversation, renameConversation } from "../storage/conversations.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { textArea } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import { recordingSheetStrings } from "./recording-sheet-strings.ts";
import "./share-links.ts";
import "./recording-sheet.css";

const LONGEST_NAME = 200;
const LONGEST_COMMENT = 2000;

/**
 * What a user can do with a recording of the server. Guests of a share link can only save it.
 * Content of a dialog.
 */
@customElement("an-recording-sheet")
export class RecordingSheet extends BaseElement {
  readonly #task = new UserTask(this);

  /** Recording id, or share token. */
  @property({ attribute: false }) recordingId = "";

  /** Null while it is read, or if the server has none. */
  @state() private meta: RecordingMeta | null = null;
  /** Null if this browser does not list the conversation. */
  @state() private givenName: string | null = null;
  @state() private comment = "";
  /** Null if the comment is unchanged. */
  @state() private draft: string | null = null;

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (changed.has("recordingId")) void this.#load();
  }

  protected override render(): TemplateResult {
    const t = recordingSheetStrings();
    const { recordingId } = this;
    if (isShareToken(recordingId)) {
      return html`<p class="soft">${t.guest}</p>
        ${this.meta === null ? nothing : this.#files(this.meta)}`;
    }
    return html`${this.givenName === null ? nothing : this.#name(this.givenName)}
      ${this.#commentForm()}
      <section class="stack tight">
        <h3 class="small strong">${t.links}</h3>
        <an-share-links .recordingId=${recordingId}></an-share-links>
      </section>
      ${this.meta === null ? nothing : this.#files(this.meta)}`;
  }

  #name(title: string): TemplateResult {
    const t = recordingSheetStrings();
    return html`<form class="stack tight" @submit=${this.#rename}>
      <label class="field">
        <span>${t.name}</span>
        <input class="input" name="title" maxlength=${LONGEST_NAME} autocomplete="off" .value=${title} />
      </label>
      <p class="tiny soft">${t.nameHint}</p>
      <div class="row"><button class="button small">${common().save}</button></div>
    </form>`;
  }

  #commentForm(): TemplateResult {
    const t = recordingSheetStrings().comment;
    const isNew = this.draft !== null && this.draft.trim() !== this.comment;
    return html`<form class="stack tight" @submit=${this.#saveComment}>
      ${textArea({
        label: t.title,
        value: this.draft ?? this.comment,
        rows: 3,
        longest: LONGEST_COMMENT,
        placeholder: t.placeholder,
        hint: t.hint,
        onInput: (value) => {
          this.draft = value;
        },
      })}
      <div class="row">
        <button class="button small" ?disabled=${!isNew || this.#task.isRunning}>${common().save}</button>
      </div>
    </form>`;
  }

  #files(meta: RecordingMeta): TemplateResult {
    const t = recordingSheetStrings();
    const { merged_replay: wav, merged_replay_video: film } = meta;
    return html`<section class="stack tight">
      <h3 class="small strong">${t.files}</h3>
      ${meta.replay === "merging" ? html`<p class="small soft">${t.notReady}</p>` : nothing}
      <div class="row tight">
        ${wav ? this.#button(t.wav, t.wavHint, () => this.#saveAsset(wav)) : nothing}
        ${film ? this.#button(t.film, t.filmHint, () => this.#saveAsset(film)) : nothing}
        ${this.#button(t.archive, t.archiveHint, () => this.#saveFrom(archivePath(this.recordingId), "zip"))}
        ${this.#button(t.messages, t.messagesHint, () => this.#saveMessages())}
      </div>
    </section>`;
  }

  #button(label: string, hint: string, run: () => Promise<void>): TemplateResult {
    return html`<button
      class="button small"
      title=${hint}
      ?disabled=${this.#task.isRunning}
      @click=${() => this.#task.run(run)}
    >
      ${icon("download")} ${label}
    </button>`;
  }

  async #load(): Promise<void> {
    this.givenName = await ownConversation(this.recordingId).then(
      (found) => found?.title ?? null,
      () => null, // a browser without a database has no names
    );
    await this.#task.run(async () => {
      this.meta = await recordingMeta(this.recordingId);
      if (!isShareToken(this.recordingId)) this.comment = await recordingComment(this.recordingId);
    });
  }

  async #rename(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const title = String(new FormData(event.target as HTMLFormElement).get("title")).trim();
    await this.#task.run(async () => {
      await renameConversation(this.recordingId, title);
      this.givenName = title;
      this.emit("rename", title);
      toast({ tone: "good", title: recordingSheetStrings().renamed });
    });
  }

  async #saveComment(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const t = recordingSheetStrings().comment;
    const text = (this.draft ?? "").trim();
    await this.#task.run(async () => {
      await saveComment(this.recordingId, text);
      this.comment = text;
      this.draft = null;
      this.emit("comment", text);
      toast({ tone: "good", title: t.saved });
    }, t.failed);
  }

  #saveAsset(file: string): Promise<void> {
    return this.#saveFrom(assetPath(this.recordingId, file), file.split(".").at(-1) ?? "");
  }

  /** With a key the file is fetched first, because a link cannot send it. */
  async #saveFrom(path: string, extension: string): Promise<void> {
    const name = `${this.#fileName}.${extension}`;
    if (keyFor("client") === null) saveUrl(name, path);
    else saveBlob(name, await (await fetchApi(path)).blob());
  }

  async #saveMessages(): Promise<void> {
    const { packConversation } = await import("../replay/conversation-messages.ts");
    saveBlob(`${this.#fileName}.msgpack`, await packConversation(this.recordingId));
  }

  get #fileName(): string {
    return savedName(this.meta?.app_type ?? "", this.meta?.created_at);
  }
}
