import * as v from "valibot";
import { type Samples, samplesFromBase64 } from "../audio/pcm.ts";

/** Base64 of float32, or audio of a binary frame. An empty string means no audio. */
export const sound = v.pipe(
  v.unknown(),
  v.rawTransform(({ dataset, addIssue, NEVER }): Samples => {
    if (dataset.value instanceof Float32Array) return dataset.value as Samples;
    try {
      if (typeof dataset.value === "string") return samplesFromBase64(dataset.value);
    } catch {
      // the issue below names the field
    }
    addIssue();
    return NEVER;
  }),
);

/** A known message has a missing or invalid field. */
export class InvalidMessage extends Error {}

/**
 * Checks a message of the server. Returns undefined if `schema` has no such type, which a newer server
 * may send. Throws InvalidMessage with the field name.
 */
export function readMessage<Message>(
  schema: v.GenericSchema<unknown, Message>,
  value: Readonly<Record<string, unknown>>,
): Message | undefined {
  const { success, output, issues } = v.safeParse(schema, value, { abortEarly: true });
  if (success) return output;
  const field = v.getDotPath(issues[0]);
  if (field === "type") return undefined;
  throw new InvalidMessage(`${value["type"]}: ${field} is missing or wrong`);
}
