import "./audio-player.ts";
import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { decodeAudioFile, INPUT_RATE } from "../audio/pcm.ts";
import { common } from "../i18n/common.ts";
import {
  audioPart,
  type FilePart,
  filePart,
  type Part,
  type PartType,
  type TextPart,
  textPart,
} from "../media/parts.ts";
import { BaseElement, freshId } from "../ui/base-element.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { toast } from "../ui/toasts.ts";
import "./components.css";

/** Limits of a server with default settings. A server with other limits reports the reason. */
const LONGEST_AUDIO_S = 600;
const LARGEST_VIDEO = 48 * 2 ** 20;
const LONGEST_SIDE = 2048; // pixels; models use less
const JPEG_QUALITY = 0.92;

/** Other formats are re-encoded. A JPEG may be rotated by its header, which models ignore. */
const UPRIGHT = ["image/png", "image/webp"];
const VIDEOS = ["video/mp4", "video/webm", "video/quicktime"];

export type AttachmentType = Exclude<PartType, "text">;

/** Why a file was rejected. */
type AttachmentProblem = "kind" | "blind" | "unreadable" | "tooLong" | "tooLarge";

export class AttachmentError extends Error {
  readonly problem: AttachmentProblem;

  constructor(file: File, problem: AttachmentProblem) {
    super(file.name);
    this.problem = problem;
  }
}

/** Returns the `accept` attribute of a file input. */
export function acceptFor(kinds: readonly AttachmentType[]): string {
  const accepted = { image: "image/*", audio: "audio/*", video: VIDEOS.join() };
  return kinds.map((kind) => accepted[kind]).join();
}

/**
 * A file as part of a message: sound at 16 kHz, pictures not larger than sensible. `sees`: whether the
 * model can use pictures. Rejects with AttachmentError.
 */
export async function readAttachment(
  file: File,
  kinds: readonly AttachmentType[],
  sees = true,
): Promise<Part> {
  const kind = kinds.find((known) => file.type.startsWith(`${known}/`));
  if (!sees && (kind === "image" || kind === "video")) throw new AttachmentError(file, "blind");
  switch (kind) {
    case "audio":
      return readAudio(file);
    case "image":
      return readPicture(file);
    case "video":
      return readVideo(file);
    default:
      throw new AttachmentError(file, "kind");
  }
}

async function readAudio(file: File): Promise<Part> {
  const samples = await decodeAudioFile(file).catch(() => {
    throw new AttachmentError(file, "unreadable");
  });
  if (samples.length === 0) throw new AttachmentError(file, "unreadable");
  if (samples.length > LONGEST_AUDIO_S * INPUT_RATE) throw new AttachmentError(file, "tooLong");
  return audioPart(file.name, samples);
}

async function readVideo(file: File): Promise<Part> {
  if (!VIDEOS.includes(file.type)) throw new AttachmentError(file, "kind");
  if (file.size > LARGEST_VIDEO) throw new AttachmentError(file, "tooLarge");
  return filePart("video", file.name, file, await file.arrayBuffer());
}

async function readPicture(file: File): Promise<Part> {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new AttachmentError(file, "unreadable");
  });
  const fits = Math.max(bitmap.width, bitmap.height) <= LONGEST_SIDE;
  const blob = fits && UPRIGHT.includes(file.type) ? file : await redrawn(bitmap);
  bitmap.close();
  return filePart("image", file.name, blob, await blob.arrayBuffer());
}

/** Re-encodes as an upright JPEG of limited size. */
async function redrawn(bitmap: ImageBitmap): Promise<Blob> {
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const size = [Math.round(bitmap.width * scale), Math.round(bitmap.height * scale)] as const;
  const canvas = new OffscreenCanvas(...size);
  const context = canvas.getContext("2d") as OffscreenCanvasRenderingContext2D;
  context.fillStyle = "#fff"; // otherwise transparent pixels become black
  context.fillRect(0, 0, ...size);
  context.drawImage(bitmap, 0, 0, ...size);
  return canvas.convertToBlob({ type: "image/jpeg", quality: JPEG_QUALITY });
}

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
          ${inactive(this.disabled)}
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
      ${inactive(this.disabled || off)}
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
      const part = await readAttachment(file, [kind]);
      this.#change([...this.parts, part]); // the user may have changed them in between
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
