import { INPUT_RATE } from "../audio/pcm.ts";
import { audioPart, filePart, type Part, type PartType } from "../media/parts.ts";
import { decodeAudioFile } from "./audio-file.ts";

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
export type AttachmentProblem = "kind" | "unreadable" | "tooLong" | "tooLarge";

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

/** A file as part of a message: sound at 16 kHz, pictures not larger than sensible. Rejects with AttachmentError. */
export async function readAttachment(file: File, kinds: readonly AttachmentType[]): Promise<Part> {
  const kind = kinds.find((known) => file.type.startsWith(`${known}/`));
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
