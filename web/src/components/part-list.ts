import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { common } from "../i18n/common.ts";
import { type FilePart, type Part, type TextPart, textPart } from "../media/parts.ts";
import { BaseElement, freshId } from "../ui/base-element.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";
import { AttachmentError, type AttachmentType, acceptFor, readAttachment } from "./attachments.ts";
import "./part-list.css";
import "./audio-player.ts";

const ICONS: Record<Part["type"], IconName> = {
  text: "chat",
  audio: "voice",
  image: "image",
  video: "camera",
};

/**
 * An ordered list of text, audio, image and video parts that the user can edit.
 *
 * @fires change - the new list
 */
@customElement("an-part-list")
export class PartList extends BaseElement {
  readonly #id = freshId("parts");

  @property({ attribute: false }) parts: readonly Part[] = [];
  /** Kinds of parts that can be added besides text. */
  @property({ attribute: false }) kinds: readonly AttachmentType[] = ["audio"];
  @property({ type: Boolean }) disabled = false;

  protected override render(): TemplateResult {
    const { parts } = common();
    return html`<ol role="list" class="stack">
        ${repeat(
          this.parts,
          ({ id }) => id,
          (part, place) => this.#row(part, place),
        )}
      </ol>
      <div class="row tight">
        <button
          class="button small"
          ?disabled=${this.disabled}
          @click=${() => this.#change([...this.parts, textPart("")])}
        >
          ${icon("plus")} ${parts.text}
        </button>
        ${this.kinds.map((kind) => this.#adder(kind))}
      </div>`;
  }

  #row(part: Part, place: number): TemplateResult {
    const { parts } = common();
    const label = `${parts[part.type]} ${place + 1}`;
    return html`<li class="stack tight">
      <div class="row apart still">
        <span class="row tight still tiny soft strong">${icon(ICONS[part.type])} ${label}</span>
        <span class="row still tools">
          ${this.#tool("chevron", parts.up(label), place === 0, () => this.#move(place, -1), "up")}
          ${this.#tool("chevron", parts.down(label), place === this.parts.length - 1, () => this.#move(place, 1))}
          ${this.#tool("trash", parts.remove(label), false, () => this.#change(this.parts.toSpliced(place, 1)))}
        </span>
      </div>
      ${this.#body(part, label)}
    </li>`;
  }

  #tool(name: IconName, label: string, off: boolean, run: () => void, turn = ""): TemplateResult {
    return html`<button
      class="button quiet square small ${turn}"
      aria-label=${label}
      ?disabled=${this.disabled || off}
      @click=${run}
    >
      ${icon(name)}
    </button>`;
  }

  #body(part: Part, label: string): TemplateResult {
    switch (part.type) {
      case "text":
        return this.#text(part, label);
      case "audio":
        return html`<div class="sound">
          <p class="small truncate">${part.name}</p>
          <an-audio-player .samples=${part.samples} label=${part.name}></an-audio-player>
        </div>`;
      default:
        return mediaPreview(part);
    }
  }

  #text(part: TextPart, label: string): TemplateResult {
    return html`<textarea
      class="input"
      rows="3"
      maxlength="8000"
      aria-label=${label}
      ?disabled=${this.disabled}
      .value=${part.text}
      @input=${(event: Event) => {
        const { value } = event.target as HTMLTextAreaElement;
        this.#change(this.parts.map((one) => (one === part ? { ...part, text: value } : one)));
      }}
    ></textarea>`;
  }

  #adder(kind: AttachmentType): TemplateResult {
    const id = `${this.#id}-${kind}`;
    return html`<label class="button small" for=${id} aria-disabled=${this.disabled}>
        ${icon("plus")} ${common().parts[kind]}
      </label>
      <input
        id=${id}
        class="visually-hidden"
        type="file"
        accept=${acceptFor([kind])}
        ?disabled=${this.disabled}
        @change=${(event: Event) => this.#add(event.target as HTMLInputElement, kind)}
      />`;
  }

  async #add(input: HTMLInputElement, kind: AttachmentType): Promise<void> {
    const file = input.files?.[0];
    input.value = "";
    if (!file) return;
    try {
      this.#change([...this.parts, await readAttachment(file, [kind])]);
    } catch (error) {
      if (!(error instanceof AttachmentError)) throw error;
      toast(attachmentErrorText(error));
    }
  }

  #move(place: number, by: 1 | -1): void {
    const moved = this.parts[place] as Part;
    this.#change(this.parts.toSpliced(place, 1).toSpliced(place + by, 0, moved));
  }

  #change(parts: readonly Part[]): void {
    this.parts = parts;
    this.emit("change", parts);
  }
}

/** Returns why a file was rejected and which files are accepted. */
export function attachmentErrorText({ message, problem }: AttachmentError) {
  const { problems, rejected } = common().parts;
  return {
    tone: "caution",
    title: rejected(message),
    remedy: problems[problem],
  } as const;
}

/** An image or a video as it will be sent. */
export function mediaPreview({ type, name, url }: FilePart): TemplateResult {
  if (type === "image") return html`<img class="picture" src=${url} alt=${name} />`;
  return html`<video class="picture" src=${url} controls playsinline aria-label=${name}></video>`;
}
