import type { Samples } from "../audio/pcm.ts";
import type { ContentPart } from "../protocol/client-messages.ts";

/** Parts of messages and instructions. */
export type Part = TextPart | AudioPart | FilePart;
export type PartType = Part["type"];

interface Known {
  /** Unique in the page. */
  readonly id: number;
}

export interface TextPart extends Known {
  readonly type: "text";
  readonly text: string;
  /** It tells the model to use a voice that follows. */
  readonly aboutVoice?: true;
}

export interface AudioPart extends Known {
  readonly type: "audio";
  readonly name: string;
  /** 16 kHz. */
  readonly samples: Samples;
}

export interface FilePart extends Known {
  readonly type: "image" | "video";
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** For the preview. Valid while the page is open. */
  readonly url: string;
}

let last = 0;

function fresh(): number {
  last += 1;
  return last;
}

export function textPart(text: string): TextPart {
  return { id: fresh(), type: "text", text };
}

export function audioPart(name: string, samples: Samples): AudioPart {
  return { id: fresh(), type: "audio", name, samples };
}

export function filePart(type: FilePart["type"], name: string, file: Blob, bytes: ArrayBuffer) {
  const url = URL.createObjectURL(file);
  return { id: fresh(), type, name, bytes: new Uint8Array(bytes), url } satisfies FilePart;
}

/** A stored part in a new page: with a new id, and an URL of this page. */
export function restoredPart(part: Part): Part {
  const id = fresh();
  if (part.type === "text" || part.type === "audio") return { ...part, id };
  return { ...part, id, url: URL.createObjectURL(new Blob([part.bytes])) };
}

/** Whether the part has content to send. */
export function isNotEmpty(part: Part): boolean {
  return part.type !== "text" || part.text.trim() !== "";
}

/** Converts a part to the format of the protocol. */
export function toContentPart(part: Part): ContentPart {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text };
    case "audio":
      return { type: "audio", data: part.samples };
    default:
      return { type: part.type, data: part.bytes };
  }
}

/** Returns the text of the parts. */
export function plainText(parts: readonly Part[]): string {
  return parts
    .filter((part) => part.type === "text")
    .map(({ text }) => text)
    .join("\n");
}
