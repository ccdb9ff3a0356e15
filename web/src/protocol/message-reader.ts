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

// biome-ignore lint/suspicious/noExplicitAny: a reader of any type; `MessageOf` finds which
type Fields = Readonly<Record<string, FieldReader<any>>>;

/** Definition of one message type. */
export interface Shape<Type extends string, F extends Fields> {
  readonly type: Type;
  readonly fields: F;
}

// biome-ignore lint/suspicious/noExplicitAny: as above
export type AnyShape = Shape<string, any>;

/** The message type of a shape. */
export type MessageOf<S extends AnyShape> =
  S extends Shape<infer Type, infer F>
    ? { readonly type: Type } & {
        readonly [Name in keyof F]: F[Name] extends FieldReader<infer T> ? T : never;
      }
    : never;

export type MessageReader<Message> = (
  value: Readonly<Record<string, unknown>>,
) => Message | undefined;

/** A known message has a missing or invalid field. */
export class InvalidMessage extends Error {}

export function shape<const Type extends string, F extends Fields>(
  type: Type,
  fields: F,
): Shape<Type, F> {
  return { type, fields };
}

/**
 * Reads messages of any of `shapes`. Returns undefined for other types. Throws InvalidMessage with
 * the field name.
 */
export function messageReader<const S extends readonly AnyShape[]>(
  ...shapes: S
): MessageReader<MessageOf<S[number]>> {
  const byType = new Map(shapes.map((known) => [known.type, known]));
  return (value) => {
    const known = byType.get(String(value["type"]));
    return known && (read(known, value) as MessageOf<S[number]>);
  };
}

function read(known: AnyShape, value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const message: Record<string, unknown> = { type: known.type };
  for (const [name, reader] of Object.entries(known.fields as Fields)) {
    const field: unknown = reader(value[name]);
    if (field === undefined) throw new InvalidMessage(`${known.type}: ${name} is missing or wrong`);
    message[name] = field;
  }
  return message;
}
