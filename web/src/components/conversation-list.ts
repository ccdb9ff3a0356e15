import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { siteUrl } from "../api/site.ts";
import { common } from "../i18n/common.ts";
import { formatClock, formatDateTime } from "../i18n/language.ts";
import { showError } from "../shell/errors.ts";
import {
  conversationPath,
  deleteConversation,
  type OwnConversation,
  ownConversations,
} from "../storage/conversations.ts";
import { BaseElement } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import { ownConversationsStrings } from "./conversation-strings.ts";
import "./recordings.css";

/** The conversations of this browser: open and delete. */
@customElement("an-conversation-list")
export class ConversationList extends BaseElement {
  /** Null while it is read. */
  @state() private all: readonly OwnConversation[] | null = null;
  @state() private hasDatabase = true;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#load();
  }

  protected override render(): TemplateResult {
    const t = ownConversationsStrings();
    if (!this.hasDatabase) return html`<p class="soft">${t.noDatabase}</p>`;
    if (this.all === null) {
      return html`<p class="row soft"><span class="spinner"></span>${common().loading}</p>`;
    }
    if (this.all.length === 0) return html`<p class="soft">${t.none}</p>`;
    return html`<p class="small soft">${t.intro}</p>
      <ul role="list">
        ${this.all.map((one) => this.#row(one))}
      </ul>`;
  }

  #row(one: OwnConversation): TemplateResult {
    const t = ownConversationsStrings();
    const [name, when] = [nameOf(one), formatDateTime(one.startedAt)];
    const isChat = one.kind === "chat";
    const isHere = isChat || one.kept.length > 0;
    return html`<li class="row still tight">
      <a class="grow" href=${siteUrl(conversationPath(one))}>
        <span class="strong truncate">${name}</span>
        <span class="row tight tiny soft">
          <span>${t.kinds[one.kind]}</span><span>${when}</span>
          ${isChat ? nothing : html`<span class="number">${formatClock(one.durationMs / 1000)}</span>`}
          ${isHere ? html`<span class="badge">${t.here}</span>` : nothing}
          ${one.recordingId === null ? nothing : html`<span class="badge">${t.server}</span>`}
          ${isHere || one.recordingId !== null ? nothing : html`<span class="badge">${t.textOnly}</span>`}
        </span>
      </a>
      <button
        class="button quiet square"
        aria-label=${t.remove(`${name}, ${when}`)}
        title=${t.remove(name)}
        @click=${() => this.#delete(one)}
      >
        ${icon("trash")}
      </button>
    </li>`;
  }

  async #load(): Promise<void> {
    try {
      this.all = await ownConversations();
    } catch {
      this.hasDatabase = false;
    }
  }

  async #delete(one: OwnConversation): Promise<void> {
    const t = ownConversationsStrings();
    try {
      await deleteConversation(one);
      this.all = (this.all ?? []).filter((other) => other !== one);
      const remedy = one.recordingId === null ? "" : t.removedServer;
      toast({ tone: "good", title: t.removed, remedy });
    } catch (error) {
      showError(error);
    }
  }
}

/** The user's name for it, or its first words. */
function nameOf({ title, lines }: OwnConversation): string {
  const first = lines.find(({ role }) => role === "user") ?? lines[0];
  return title || first?.text || ownConversationsStrings().noWords;
}
