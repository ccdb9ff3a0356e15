import "../../components/audio-player.ts";
import type { AudioRecorder } from "../../components/audio-recorder.ts";
import "../../components/audio-recorder.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, query, state } from "lit/decorators.js";
import { live } from "lit/directives/live.js";
import { repeat } from "lit/directives/repeat.js";
import type { Samples } from "../../audio/pcm.ts";
import {
  AttachmentError,
  type AttachmentType,
  acceptFor,
  attachmentErrorText,
  mediaPreview,
  readAttachment,
} from "../../components/part-list.ts";
import { common } from "../../i18n/common.ts";
import { formatDateTime } from "../../i18n/language.ts";
import { audioPart, type Part, plainText, textPart } from "../../media/parts.ts";
import type { Question } from "../../session/chat-exchange.ts";
import { capabilities } from "../../shell/capabilities.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement, type ChangedProperties, freshId } from "../../ui/base-element.ts";
import { isComposing } from "../../ui/composition.ts";
import { icon } from "../../ui/icon.ts";
import { inactive } from "../../ui/inactive.ts";
import { toast } from "../../ui/toasts.ts";
import { copyButton, toolButton } from "./answer.ts";
import { chatStrings } from "./strings.ts";

type AttachmentPart = Exclude<Part, { type: "text" }>;

const KINDS: readonly AttachmentType[] = ["image", "audio", "video"];
const TALLEST = 240; // pixels; above this it scrolls

/**
 * Message editor: text, recordings, and files that are selected, dropped or pasted.
 *
 * @fires text - string: the text after every change
 * @fires send - Part[]: attachments, then the text
 * @fires stop - stop the answer
 * @fires cancel - discard the changes
 */
@customElement("an-composer")
export class Composer extends BaseElement {
  readonly #id = freshId("composer");
  readonly #able = new StoreController(this, capabilities);

  /** Initial parts. */
  @property({ attribute: false }) draft: readonly Part[] = [];
  /** An answer is generated. A message is sent after it. */
  @property({ type: Boolean }) busy = false;
  /** Edits a message that was sent before. */
  @property({ type: Boolean }) editing = false;
  /** Additional buttons. */
  @property({ attribute: false }) tools: TemplateResult | typeof nothing = nothing;

  @state() private text = "";
  @state() private attached: readonly AttachmentPart[] = [];
  /** By a button, or while Space is held. */
  @state() private recording: "button" | "space" | null = null;
  @state() private reading = 0;
  /** The message is sent after the current answer and its files. A change of its text keeps it here. */
  @state() private waits = false;
  @query("textarea") private readonly area!: HTMLTextAreaElement | null;
  @query("an-audio-recorder") private readonly recorder!: AudioRecorder | null;

  /** Whether it has files or a recording that are not sent. */
  get hasFiles(): boolean {
    return this.#isReading || this.attached.length > 0;
  }

  /** Files are read, or one is being recorded. */
  get #isReading(): boolean {
    return this.recording !== null || this.reading > 0;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    if (this.editing) return; // the main composer has the key
    addEventListener("keydown", this.#onSpace);
    addEventListener("keyup", this.#onRelease);
    addEventListener("blur", this.#onRelease);
  }

  override disconnectedCallback(): void {
    removeEventListener("keydown", this.#onSpace);
    removeEventListener("keyup", this.#onRelease);
    removeEventListener("blur", this.#onRelease);
    super.disconnectedCallback();
  }

  /** Attaches files. Rejected files are reported. */
  async add(files: Iterable<File>): Promise<void> {
    for (const file of files) {
      this.reading += 1;
      try {
        this.#attach(await readAttachment(file, KINDS, this.#takesPictures));
      } catch (error) {
        if (!(error instanceof AttachmentError)) throw error;
        this.waits = false;
        toast(attachmentErrorText(error));
      } finally {
        this.reading -= 1;
      }
    }
    this.area?.focus();
  }

  /** A simulated engine accepts what it does not see. */
  get #takesPictures(): boolean {
    const able = this.#able.value;
    return able === null || able.sees || able.simulated;
  }

  /** Clears the editor. */
  clear(): void {
    this.text = "";
    this.attached = [];
  }

  /** Puts a message that was not sent before what the user has entered since. */
  putBack(parts: readonly Part[]): void {
    this.text = [plainText(parts), this.text].filter((text) => text !== "").join("\n");
    this.attached = [...attachmentsOf(parts), ...this.attached];
    this.waits = false;
  }

  override focus(): void {
    this.area?.focus();
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (!changed.has("draft")) return;
    this.text = plainText(this.draft);
    this.attached = attachmentsOf(this.draft);
  }

  protected override updated(changed: ReadonlyMap<PropertyKey, unknown>): void {
    if (changed.has("text")) this.emit("text", this.text);
    if (this.waits) this.#send();
    const area = this.area;
    if (area === null) return;
    area.style.height = "auto";
    if (area.value === "") return; // the height of one row, without computing the layout
    area.style.height = `${Math.min(TALLEST, area.scrollHeight)}px`;
  }

  protected override render(): TemplateResult {
    return html`<form
      class="card"
      @submit=${(event: SubmitEvent) => {
        event.preventDefault();
        this.#send();
      }}
    >
      ${attachments(this.attached, (part) => {
        this.attached = this.attached.filter((one) => one !== part);
      })}
      ${
        this.recording
          ? html`<an-audio-recorder
              ?held=${this.recording === "space"}
              @recorded=${({ detail }: CustomEvent<Samples>) => this.#recorded(detail)}
              @discard=${() => this.#record(null)}
            ></an-audio-recorder>`
          : this.#line()
      }
    </form>`;
  }

  #line(): TemplateResult {
    const t = chatStrings();
    return html`<textarea
        rows="1"
        maxlength="20000"
        aria-label=${this.editing ? t.remedies.edit : t.composer}
        placeholder=${t.placeholder}
        enterkeyhint="send"
        .value=${live(this.text)}
        @input=${(event: Event) => {
          this.text = (event.target as HTMLTextAreaElement).value;
          this.waits = false;
        }}
        @keydown=${this.#onKey}
        @paste=${this.#onPaste}
      ></textarea>
      <div class="row tight still tools">
        ${this.#attachButton()}
        <button
          class="button quiet square"
          type="button"
          aria-label=${t.record}
          title=${this.editing ? t.record : t.recordTitle}
          @click=${() => this.#record("button")}
        >
          ${icon("mic")}
        </button>
        ${this.tools}
        <span class="grow truncate tiny soft" role="status">${this.#waitText()}</span>
        ${this.editing ? this.#cancelButton() : nothing} ${this.#sendButton()}
      </div>`;
  }

  #attachButton(): TemplateResult {
    const t = chatStrings();
    const sees = this.#able.value?.sees ?? true;
    const label = sees ? t.attach : t.attachAudio;
    return html`<label class="button quiet square" for="${this.#id}-files" title=${label}>
        ${this.reading > 0 ? html`<span class="spinner"></span>` : icon("attach")}
        <span class="visually-hidden">${label}</span>
      </label>
      <input
        id="${this.#id}-files"
        class="visually-hidden"
        type="file"
        multiple
        accept=${acceptFor(sees ? KINDS : ["audio"])}
        @change=${(event: Event) => {
          const input = event.target as HTMLInputElement;
          void this.add([...(input.files ?? [])]);
          input.value = "";
        }}
      />`;
  }

  #cancelButton(): TemplateResult {
    return html`<button class="button quiet" type="button" @click=${() => this.emit("cancel", null)}>
      ${common().cancel}
    </button>`;
  }

  #sendButton(): TemplateResult {
    const t = chatStrings();
    if (this.busy) {
      return html`<button
        class="button square primary"
        type="button"
        aria-label=${t.stop}
        title=${t.stop}
        @click=${() => this.emit("stop", null)}
      >
        ${icon("stop")}
      </button>`;
    }
    const label = this.editing ? t.sendEdited : t.send;
    return html`<button
      class="button square primary"
      aria-label=${label}
      title=${label}
      ${inactive(!this.#hasContent)}
    >
      ${icon("send")}
    </button>`;
  }

  get #hasContent(): boolean {
    return this.text.trim() !== "" || this.attached.length > 0 || this.#isReading;
  }

  #waitText(): string {
    if (!this.waits) return "";
    return this.busy ? chatStrings().waits : chatStrings().waitsForFile;
  }

  #send(): void {
    this.waits = this.#hasContent && (this.busy || this.#isReading);
    if (this.waits || !this.#hasContent) return;
    const text = this.text.trim();
    this.emit<Part[]>("send", [...this.attached, ...(text ? [textPart(text)] : [])]);
  }

  #onKey(event: KeyboardEvent): void {
    if (isComposing(event)) return;
    if (event.key === "Escape" && this.editing) this.emit("cancel", null);
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    this.#send();
  }

  #onPaste(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    void this.add(files);
  }

  #record(by: "button" | "space" | null): void {
    this.recording = by;
  }

  readonly #onSpace = (event: KeyboardEvent): void => {
    if (event.code !== "Space" || event.shiftKey || !isFree(event)) return;
    event.preventDefault(); // no scrolling, also while the key repeats
    if (!event.repeat && this.recording === null) this.#record("space");
  };

  /** The window lost the focus, or the key was released. */
  readonly #onRelease = (event: Event): void => {
    if (this.recording !== "space") return;
    if (event instanceof KeyboardEvent && event.code !== "Space") return;
    event.preventDefault();
    if (this.recorder) void this.recorder.finish();
    else this.#record(null); // released before it was rendered
  };

  #recorded(samples: Samples): void {
    this.#record(null);
    this.#attach(audioPart(chatStrings().recordingName(formatDateTime(Date.now())), samples));
    void this.updateComplete.then(() => this.area?.focus());
  }

  #attach(part: Part): void {
    if (part.type !== "text") this.attached = [...this.attached, part];
  }
}

const USES_SPACE =
  "input, textarea, select, button, a, summary, audio, video, [contenteditable], [tabindex='0']";

/** Whether no element uses the key itself. */
function isFree({ target, ctrlKey, metaKey, altKey, defaultPrevented }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || defaultPrevented) return false;
  const isUsed = target instanceof Element && target.closest(USES_SPACE) !== null;
  return !isUsed && document.querySelector("dialog[open]") === null;
}

function attachmentsOf(parts: readonly Part[]): AttachmentPart[] {
  return parts.filter((part) => part.type !== "text");
}

/** Attachments of the message, each with a remove button. */
function attachments(
  parts: readonly AttachmentPart[],
  remove: (part: AttachmentPart) => void,
): TemplateResult | typeof nothing {
  if (parts.length === 0) return nothing;
  return html`<ul role="list" class="attached">
    ${repeat(
      parts,
      ({ id }) => id,
      (part) => html`<li class=${part.type}>
        ${
          part.type === "audio"
            ? html`<an-audio-player .samples=${part.samples} label=${part.name}></an-audio-player>`
            : mediaPreview(part)
        }
        <button
          class="button square small"
          type="button"
          aria-label=${chatStrings().removePart(part.name)}
          @click=${() => remove(part)}
        >
          ${icon("close")}
        </button>
      </li>`,
    )}
  </ul>`;
}

/**
 * A message of the user, which can be edited.
 *
 * @fires edit - Part[]: ask this instead
 * @fires remove - delete the message
 * @fires stop - stop the current answer
 */
@customElement("an-question")
export class QuestionElement extends BaseElement {
  @property({ attribute: false }) question!: Question;
  @property({ attribute: false }) excluded: ReadonlySet<number> = new Set();
  /** Disabled while an answer is generated. */
  @property({ type: Boolean }) busy = false;

  /** The parts that are edited. Null while the message is shown. */
  @state() private draft: readonly Part[] | null = null;

  /** Edits the message in place. */
  edit(draft: readonly Part[] = this.question.parts): void {
    this.draft = draft;
    void this.updateComplete.then(() => this.querySelector<HTMLElement>("an-composer")?.focus());
  }

  protected override render(): TemplateResult {
    return this.draft ? this.#editor(this.draft) : this.#shown();
  }

  #editor(draft: readonly Part[]): TemplateResult {
    return html`<an-composer
      editing
      ?busy=${this.busy}
      .draft=${draft}
      @stop=${() => this.emit("stop", null)}
      @cancel=${() => this.#close()}
      @send=${({ detail }: CustomEvent<readonly Part[]>) => {
        this.#close();
        this.emit("edit", detail);
      }}
    ></an-composer>`;
  }

  #shown(): TemplateResult {
    const t = chatStrings();
    const text = plainText(this.question.parts);
    return html`<h3 class="visually-hidden">${t.you}</h3>
      <div class="message-content">${this.question.parts.map((part) => this.#part(part))}</div>
      <div class="row still tools">
        ${toolButton("edit", t.edit, this.busy, () => this.edit())} ${copyButton(text)}
        ${toolButton("trash", t.remove, this.busy, () => this.emit("remove", null))}
      </div>`;
  }

  #part(part: Part): TemplateResult {
    const out = this.excluded.has(part.id);
    return html`<div class="part ${part.type} ${out ? "excluded" : ""}">
      ${shown(part)} ${out ? html`<span class="badge caution">${chatStrings().excluded}</span>` : nothing}
    </div>`;
  }

  #close(): void {
    this.draft = null;
  }
}

function shown(part: Part): TemplateResult {
  switch (part.type) {
    case "text":
      return html`<p>${part.text}</p>`;
    case "audio":
      return html`<an-audio-player .samples=${part.samples} label=${part.name}></an-audio-player>`;
    default:
      return mediaPreview(part);
  }
}
