import { base64FromBytes, pcm16FromSamples, type Samples } from "../audio/pcm.ts";
import { isRecord } from "../state/store.ts";

/**
 * WebSocket frames: JSON text with base64, or a binary frame of `antiphon.binary.v1`. A binary
 * frame has the length of a JSON header (4 bytes, little-endian), the header, and the bytes that
 * `{"at", "bytes", "format"}` in the header refers to.
 */

export const PLAIN_PROTOCOL = "antiphon.v1";
export const BINARY_PROTOCOL = "antiphon.binary.v1";

const LENGTH_BYTES = 4;
const ALIGNMENT = 4;

/** Audio of an outgoing message: float32 samples or their base64. */
export type WireAudio = Samples | string;

/** Image or video of an outgoing message: file bytes or their base64. */
export type WireImage = Uint8Array<ArrayBuffer> | string;

type Media = Float32Array | Uint8Array;

/** Encodes as JSON text with media as base64. */
export function encodeText(message: object): string {
  return stringify(message, (media) => base64FromBytes(bytesOf(media)));
}

/** Encodes as a binary frame with 16-bit audio, or as text if there is no media. */
export function encodeFrame(message: object): string | ArrayBuffer {
  const payload: Uint8Array[] = [];
  let at = 0;
  const header = stringify(message, (media) => {
    const sound = media instanceof Float32Array;
    const bytes = bytesOf(sound ? pcm16FromSamples(media) : media);
    const reference = { at, bytes: bytes.length, ...(sound ? { format: "s16" } : {}) };
    payload.push(bytes);
    at += bytes.length;
    return reference;
  });
  return payload.length ? joined(header, payload, at) : header;
}

function stringify(message: object, encode: (media: Media) => unknown): string {
  return JSON.stringify(message, function (this: Record<string, unknown>, key, value: unknown) {
    const field = this[key]; // `value` is what `toJSON` makes of it, which a Buffer of Node.js has
    return isMedia(field) ? encode(field) : value;
  });
}

/** Decodes a frame. Media becomes `Float32Array`. Throws SyntaxError or RangeError. */
export function decodeFrame(frame: string | ArrayBuffer): unknown {
  if (typeof frame === "string") return JSON.parse(frame);
  const length = new DataView(frame).getUint32(0, true);
  const header = new TextDecoder().decode(new Uint8Array(frame, LENGTH_BYTES, length));
  const start = LENGTH_BYTES + length;
  return JSON.parse(header, (_, value: unknown) =>
    isReference(value) ? samplesAt(frame, start, value) : value,
  );
}

interface Reference {
  at: number;
  bytes: number;
  format: string;
}

function isReference(value: unknown): value is Reference {
  return isRecord(value) && typeof value["at"] === "number" && typeof value["bytes"] === "number";
}

function samplesAt(frame: ArrayBuffer, start: number, { at, bytes, format }: Reference): Samples {
  const data = frame.slice(start + at, start + at + bytes); // the slice aligns the data
  if (data.byteLength !== bytes) throw new RangeError("the binary frame is truncated");
  if (format === "f32") return new Float32Array(data);
  return Float32Array.from(new Int16Array(data), (value) => value / 0x8000);
}

function joined(header: string, payload: Uint8Array[], payloadBytes: number): ArrayBuffer {
  const text = new TextEncoder().encode(header);
  const padding = (ALIGNMENT - ((LENGTH_BYTES + text.length) % ALIGNMENT)) % ALIGNMENT;
  const headerBytes = text.length + padding;
  const frame = new Uint8Array(LENGTH_BYTES + headerBytes + payloadBytes).fill(
    0x20,
    0,
    LENGTH_BYTES + headerBytes,
  );
  new DataView(frame.buffer).setUint32(0, headerBytes, true);
  frame.set(text, LENGTH_BYTES);
  let at = LENGTH_BYTES + headerBytes;
  for (const part of payload) {
    frame.set(part, at);
    at += part.length;
  }
  return frame.buffer;
}

function isMedia(value: unknown): value is Media {
  return value instanceof Float32Array || value instanceof Uint8Array;
}

function bytesOf(media: Media | Int16Array): Uint8Array {
  return new Uint8Array(media.buffer, media.byteOffset, media.byteLength);
}
