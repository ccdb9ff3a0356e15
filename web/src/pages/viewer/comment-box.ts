import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { saveComment } from "../../api/recordings.ts";
import { common } from "../../i18n/common.ts";
import { showError } from "../../shell/errors.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { textArea } from "../../ui/controls.ts";
import { toast } from "../../ui/toasts.ts";
import { viewerStrings } from "./strings.ts";

const LONGEST = 2000;

/** The comment of a recording. Only its owner can edit it. */
@customElement("an-comment-box")
export class CommentBox extends BaseElement {
  @property() name = "";
  @property() comment = "";
  @property({ type: Boolean }) fixed = false;

  /** Null if unchanged. */
  @state() private draft: string | null = null;
  @state() private busy = false;

  protected override render(): TemplateResult | typeof nothing {
    const t = viewerStrings().comment;
    if (this.fixed) {
      if (this.comment === "") return nothing;
      return html`<section class="card stack tight">
        <h2 class="small strong">${t.title}</h2>
        <p class="text">${this.comment}</p>
      </section>`;
    }
    const isNew = this.draft !== null && this.draft.trim() !== this.comment;
    return html`<form class="card stack tight" @submit=${this.#save}>
      ${textArea({
        label: t.title,
        value: this.draft ?? this.comment,
        rows: 3,
        longest: LONGEST,
        placeholder: t.placeholder,
        hint: t.hint,
        onInput: (value) => {
          this.draft = value;
        },
      })}
      <div class="row">
        <button class="button small" ?disabled=${!isNew || this.busy}>${common().save}</button>
      </div>
    </form>`;
  }

  async #save(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const text = (this.draft ?? "").trim();
    this.busy = true;
    try {
      await saveComment(this.name, text);
      this.comment = text;
      this.draft = null;
      toast({ tone: "good", title: viewerStrings().comment.saved });
    } catch (error) {
      showError(error, viewerStrings().comment.failed);
    } finally {
      this.busy = false;
    }
  }
}
