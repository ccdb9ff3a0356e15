import { html, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import {
  revokeShare,
  type ShareLink,
  shareAddress,
  shareLinks,
  shareRecording,
  WEEK_S,
} from "../api/shares.ts";
import { common } from "../i18n/common.ts";
import { formatDateTime } from "../i18n/format.ts";
import { defineStrings } from "../i18n/language.ts";
import { showError, UserTask } from "../shell/errors.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { select } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";

export const shareLinksStrings = defineStrings(
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
        <button class="button primary" ?disabled=${this.#task.isRunning} @click=${() => this.#make()}>
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
        ?disabled=${this.#task.isRunning}
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
