import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { live } from "lit/directives/live.js";
import type { RecordingMeta, ShareLink } from "../api/answers.ts";
import { fetchApi, keyFor } from "../api/http.ts";
import {
  archivePath,
  assetPath,
  isShareToken,
  recordingComment,
  recordingMeta,
  revokeShare,
  saveComment,
  shareAddress,
  shareLinks,
  shareRecording,
  WEEK_S,
} from "../api/recordings.ts";
import { siteUrl } from "../api/site.ts";
import { common } from "../i18n/common.ts";
import { defineStrings, formatDateTime } from "../i18n/language.ts";
import { saveBlob, savedName, saveUrl } from "../session/browser-recording.ts";
import { showError, UserTask } from "../shell/errors.ts";
import { ownConversation, renameConversation } from "../storage/conversations.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { select, textArea } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { toast } from "../ui/toasts.ts";
import { recordingSheetStrings } from "./recording-sheet-strings.ts";
import "./recordings.css";

const shareLinksStrings = defineStrings(
  {
    intro: "Anyone with a link can view and play this recording.",
    expires: "Expires in",
    lives: {
      hour: "1 hour",
      day: "1 day",
      week: "1 week",
      month: "30 days",
      ever: "Never",
    },
    make: "Create link",
    none: "No links yet.",
    link: "Link",
    until: (when: string) => `until ${when}`,
    forever: "no expiry",
    copy: "Copy link",
    copied: "Link copied",
    notCopied: "Cannot copy the link",
    notMade: "Cannot create a link",
    revoke: "Revoke link",
    revoked: "Link revoked",
    notRevoked: "Cannot revoke the link",
  },
  {
    intro: "拥有链接的人可以查看并播放此录制。",
    expires: "有效期",
    lives: { hour: "1 小时", day: "1 天", week: "1 周", month: "30 天", ever: "永不过期" },
    make: "创建链接",
    none: "还没有链接。",
    link: "链接",
    until: (when) => `有效至 ${when}`,
    forever: "永不过期",
    copy: "复制链接",
    copied: "链接已复制",
    notCopied: "无法复制链接",
    notMade: "无法创建链接",
    revoke: "撤销链接",
    revoked: "链接已撤销",
    notRevoked: "无法撤销链接",
  },
);

const LIVES = { hour: 3600, day: 86_400, week: WEEK_S, month: 30 * 86_400, ever: null } as const;
type Life = keyof typeof LIVES;

/** Lists, creates, copies and revokes the share links of a recording. */
@customElement("an-share-links")
export class ShareLinks extends BaseElement {
  readonly #task = new UserTask(this);

  @property({ attribute: false }) recordingId = "";

  @state() private life: Life = "week";
  @state() private links: readonly ShareLink[] | null = null;

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (changed.has("recordingId")) void this.#load();
  }

  protected override render(): TemplateResult {
    const t = shareLinksStrings();
    return html`<p class="small soft">${t.intro}</p>
      <div class="make">
        ${select<Life>({
          label: t.expires,
          value: this.life,
          options: (Object.keys(LIVES) as Life[]).map((value) => ({
            value,
            label: t.lives[value],
          })),
          onChange: (life) => {
            this.life = life;
          },
        })}
        <button class="button primary" ${inactive(this.#task.isRunning)} @click=${() => this.#make()}>
          ${icon("link")} ${t.make}
        </button>
      </div>
      ${this.#list()}`;
  }

  #list(): TemplateResult {
    if (this.links === null)
      return html`<p class="row soft small"><span class="spinner"></span></p>`;
    if (this.links.length === 0) return html`<p class="small soft">${shareLinksStrings().none}</p>`;
    return html`<ul role="list">
      ${this.links.map((link) => this.#row(link))}
    </ul>`;
  }

  #row(link: ShareLink): TemplateResult {
    const t = shareLinksStrings();
    const until = link.expires_at === null ? t.forever : t.until(formatDateTime(link.expires_at));
    return html`<li class="row still tight">
      <div class="grow">
        <input
          class="input"
          readonly
          aria-label=${`${t.link}, ${until}`}
          .value=${shareAddress(link)}
          @focus=${(event: Event) => (event.target as HTMLInputElement).select()}
        />
        <p class="tiny soft">${until}</p>
      </div>
      <button class="button square" aria-label=${t.copy} title=${t.copy} @click=${() => copy(link)}>
        ${icon("copy")}
      </button>
      <button
        class="button quiet square"
        aria-label=${t.revoke}
        title=${t.revoke}
        ${inactive(this.#task.isRunning)}
        @click=${() => this.#revoke(link)}
      >
        ${icon("trash")}
      </button>
    </li>`;
  }

  async #load(): Promise<void> {
    await this.#task.run(async () => {
      this.links = await shareLinks(this.recordingId);
    }, common().errors.failed);
    this.links ??= [];
  }

  async #make(): Promise<void> {
    await this.#task.run(async () => {
      const link = await shareRecording(this.recordingId, LIVES[this.life]);
      this.links = [link, ...(this.links ?? [])];
    }, shareLinksStrings().notMade);
  }

  async #revoke(link: ShareLink): Promise<void> {
    await this.#task.run(async () => {
      await revokeShare(this.recordingId, link.token);
      this.links = (this.links ?? []).filter(({ token }) => token !== link.token);
      toast({ tone: "good", title: shareLinksStrings().revoked });
    }, shareLinksStrings().notRevoked);
  }
}

async function copy(link: ShareLink): Promise<void> {
  try {
    await navigator.clipboard.writeText(shareAddress(link));
    toast({ tone: "good", title: shareLinksStrings().copied });
  } catch (error) {
    showError(error, shareLinksStrings().notCopied);
  }
}

const LONGEST_NAME = 200;
const LONGEST_COMMENT = 2000;

function isChange(draft: string | null, saved: string): boolean {
  return draft !== null && draft.trim() !== saved;
}

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
  /** Null if the name is unchanged. */
  @state() private nameDraft: string | null = null;
  @state() private comment = "";
  /** Null if the comment is unchanged. */
  @state() private commentDraft: string | null = null;

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
        <span class="label">${t.name}</span>
        <input
          class="input"
          maxlength=${LONGEST_NAME}
          autocomplete="off"
          .value=${live(this.nameDraft ?? title)}
          @input=${(event: Event) => {
            this.nameDraft = (event.target as HTMLInputElement).value;
          }}
        />
      </label>
      <p class="tiny soft">${t.nameHint}</p>
      ${this.#saveButton(isChange(this.nameDraft, title))}
    </form>`;
  }

  #commentForm(): TemplateResult {
    const t = recordingSheetStrings().comment;
    return html`<form class="stack tight" @submit=${this.#saveComment}>
      ${textArea({
        label: t.title,
        value: this.commentDraft ?? this.comment,
        rows: 3,
        longest: LONGEST_COMMENT,
        placeholder: t.placeholder,
        hint: t.hint,
        onInput: (value) => {
          this.commentDraft = value;
        },
      })}
      ${this.#saveButton(isChange(this.commentDraft, this.comment))}
    </form>`;
  }

  #saveButton(isNew: boolean): TemplateResult {
    return html`<div class="row">
      <button class="button small" ${inactive(!isNew || this.#task.isRunning)}>${common().save}</button>
    </div>`;
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
      ${inactive(this.#task.isRunning)}
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
    const title = (this.nameDraft ?? "").trim();
    await this.#task.run(async () => {
      await renameConversation(this.recordingId, title);
      this.givenName = title;
      this.nameDraft = null;
      this.emit("rename", title);
      toast({ tone: "good", title: recordingSheetStrings().renamed });
    });
  }

  async #saveComment(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const t = recordingSheetStrings().comment;
    const text = (this.commentDraft ?? "").trim();
    await this.#task.run(async () => {
      await saveComment(this.recordingId, text);
      this.comment = text;
      this.commentDraft = null;
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
    if (keyFor("client") === null) saveUrl(name, siteUrl(path));
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
