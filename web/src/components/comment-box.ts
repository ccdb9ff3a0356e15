import { html, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { saveComment } from "../api/recordings.ts";
import { common } from "../i18n/common.ts";
import { UserTask } from "../shell/errors.ts";
import { BaseElement } from "../ui/base-element.ts";
import { textArea } from "../ui/controls.ts";
import { toast } from "../ui/toasts.ts";
import { recordingSheetStrings } from "./recording-sheet-strings.ts";

const LONGEST = 2000;

/** The comment of a recording. Share links cannot edit it. */
@customElement("an-comment-box")
export class CommentBox extends BaseElement {
  readonly #task = new UserTask(this);

  @property() name = "";
  @property() comment = "";

  /** Null if unchanged. */
  @state() private draft: string | null = null;

  protected override render(): TemplateResult {
    const t = recordingSheetStrings().comment;
    const isNew = this.draft !== null && this.draft.trim() !== this.comment;
    return html`<form class="stack tight" @submit=${this.#save}>
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
        <button class="button small" ?disabled=${!isNew || this.#task.isRunning}>${common().save}</button>
      </div>
    </form>`;
  }

  async #save(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const text = (this.draft ?? "").trim();
    await this.#task.run(async () => {
      await saveComment(this.name, text);
      this.comment = text;
      this.draft = null;
      this.emit("change", text);
      toast({ tone: "good", title: recordingSheetStrings().comment.saved });
    }, recordingSheetStrings().comment.failed);
  }
}
