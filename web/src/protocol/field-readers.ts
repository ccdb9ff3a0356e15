import { type Samples, samplesFromBase64 } from "../audio/pcm.ts";

/** Reads a value of an incoming message. Returns undefined if it is invalid. */
export type FieldReader<T> = (value: unknown) => T | undefined;

export const text: FieldReader<string> = (value) => (typeof value === "string" ? value : undefined);

export const number: FieldReader<number> = (value) =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined;

export const flag: FieldReader<boolean> = (value) =>
  typeof value === "boolean" ? value : undefined;

export const record: FieldReader<Readonly<Record<string, unknown>>> = (value) =>
  isRecord(value) ? value : undefined;

/** Base64 of float32, or audio of a binary frame. An empty string means no audio. */
export const sound: FieldReader<Samples> = (value) => {
  if (value instanceof Float32Array) return value as Samples;
  if (typeof value !== "string") return undefined;
  try {
    return samplesFromBase64(value);
  } catch {
    return undefined; // the message reader reports the field
  }
};

/** Makes a field optional. Returns `whenMissing` if it is missing or null. */
export function or<T, M>(reader: FieldReader<T>, whenMissing: M): FieldReader<T | M> {
  return (value) => (value === undefined || value === null ? whenMissing : reader(value));
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
