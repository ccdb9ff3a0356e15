import type { PartRecord, RecordingMeta } from "../api/answers.ts";
import { fetchApi } from "../api/http.ts";
import { assetPath, recordingMeta, recordingPeaks, recordingTimeline } from "../api/recordings.ts";
import { wavFile } from "../audio/stereo-recorder.ts";
import { waveformOf } from "../audio/waveform.ts";
import { alignToSound } from "./sound-runs.ts";
import { type SpokenLine, type Timeline, timelineOf } from "./timeline.ts";

const HEADER_BYTES = 44;
const FRAME_BYTES = 4; // two channels of 16 bits
const SIDES = { user: 0, model: 1 } as const;

interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: readonly Packable[];
}

/** Reads a file of the recording. */
type Read = (file: string) => Promise<Blob>;

/**
 * The conversation of a recording as MessagePack: `{messages: [{role, content: [{type, text?, audio?,
 * image?, video?, format?}]}]}`. `name` is a recording id or a share token. Rejects with ApiError.
 */
export async function packConversation(name: string): Promise<Blob> {
  const [meta, recording] = await Promise.all([recordingMeta(name), recordingTimeline(name)]);
  const read: Read = async (file) => (await fetchApi(assetPath(name, file))).blob();
  const wav =
    meta.merged_replay && meta.app_type !== "chat" ? await read(meta.merged_replay) : null;
  const timeline = timelineOf(recording);
  const { lines } = wav ? await aligned(name, timeline) : timeline;
  const messages = [...instructions(meta)];
  for (const line of lines) {
    if (line.text !== "" || line.parts) messages.push(await messageOf(line, read, wav));
  }
  return packed({ messages: messages.map(({ role, content }) => ({ role, content })) });
}

/** With the times that the viewer shows. Without the peaks of the sound, estimates remain. */
async function aligned(name: string, timeline: Timeline): Promise<Timeline> {
  if (!timeline.lines.some(({ estimated }) => estimated)) return timeline;
  try {
    const { user, model, per_second } = await recordingPeaks(name);
    return alignToSound(timeline, waveformOf([user, model], per_second));
  } catch {
    return timeline;
  }
}

function* instructions({ app_type, config }: RecordingMeta): Generator<Message> {
  const text = config["system_prompt"];
  if (app_type === "chat" || typeof text !== "string" || text.trim() === "") return; // a chat has them as a message
  yield { role: "system", content: [{ type: "text", text }] };
}

async function messageOf(line: SpokenLine, read: Read, wav: Blob | null): Promise<Message> {
  if (line.role === "model") return { role: "assistant", content: [await answer(line, read, wav)] };
  const parts = line.parts ?? [];
  const content: Packable[] = await Promise.all(parts.map((part) => contentOf(part, read)));
  if (parts.length === 0) content.push({ type: "text", text: line.text });
  if (parts.length === 0 && wav) {
    content.push({ type: "audio", audio: await spoken(line, wav), format: "wav" });
  }
  return { role: line.role, content };
}

async function answer(line: SpokenLine, read: Read, wav: Blob | null): Promise<Packable> {
  const file = line.parts?.find(({ type }) => type === "audio")?.file;
  if (!wav && !file) return { type: "text", text: line.text };
  const audio = file ? await bytesOf(await read(file)) : await spoken(line, wav as Blob);
  return { type: "text_and_audio", text: line.text, audio, format: "wav" };
}

async function contentOf({ type, text, file }: PartRecord, read: Read): Promise<Packable> {
  if (type === "text" || !file) return { type: "text", text: text ?? "" };
  const format = file.split(".").at(-1) ?? "";
  return { type, [type]: await bytesOf(await read(file)), format };
}

/** One side of the stereo WAV during a line, as a mono WAV. */
async function spoken({ role, atMs, untilMs }: SpokenLine, wav: Blob): Promise<Uint8Array> {
  const rate = new DataView(await wav.slice(0, HEADER_BYTES).arrayBuffer()).getUint32(24, true);
  const [from, until] = [atMs, untilMs].map(
    (ms) => HEADER_BYTES + FRAME_BYTES * Math.round((ms * rate) / 1000),
  );
  const whole = await wav.slice(from, until).arrayBuffer();
  const both = new Int16Array(whole, 0, 2 * Math.floor(whole.byteLength / FRAME_BYTES));
  const side = role === "user" ? SIDES.user : SIDES.model;
  const mono = Int16Array.from({ length: both.length / 2 }, (_, i) => both[2 * i + side] as number);
  return bytesOf(wavFile([new Blob([mono])], { channels: 1, rate }));
}

async function bytesOf(file: Blob): Promise<Uint8Array> {
  return new Uint8Array(await file.arrayBuffer());
}

/** What a file of MessagePack can hold here. */
export type Packable = string | number | Uint8Array | readonly Packable[] | PackableMap;
interface PackableMap {
  readonly [name: string]: Packable;
}

/** Encodes a value as [MessagePack](https://msgpack.org). Numbers must be integers from 0 to 2^32. */
export function packed(value: Packable): Blob {
  return new Blob([...pieces(value)], { type: "application/vnd.msgpack" });
}

function* pieces(value: Packable): Generator<Uint8Array<ArrayBuffer>> {
  if (typeof value === "number") yield header(value, 0x00, 0x80, [0xcc, 0xcd, 0xce]);
  else if (typeof value === "string") {
    const bytes = new TextEncoder().encode(value);
    yield header(bytes.length, 0xa0, 32, [0xd9, 0xda, 0xdb]);
    yield bytes;
  } else if (value instanceof Uint8Array) {
    yield header(value.length, 0, 0, [0xc4, 0xc5, 0xc6]);
    yield value as Uint8Array<ArrayBuffer>;
  } else if (isList(value)) {
    yield header(value.length, 0x90, 16, [null, 0xdc, 0xdd]);
    for (const one of value) yield* pieces(one);
  } else {
    const fields = Object.entries(value);
    yield header(fields.length, 0x80, 16, [null, 0xde, 0xdf]);
    for (const [name, field] of fields) {
      yield* pieces(name);
      yield* pieces(field);
    }
  }
}

function isList(value: Packable): value is readonly Packable[] {
  return Array.isArray(value);
}

/** The type byte and a size: in the type byte if below `small`, else in 1, 2 or 4 bytes. */
function header(
  size: number,
  short: number,
  small: number,
  [one, two, four]: [number | null, number, number],
): Uint8Array<ArrayBuffer> {
  if (size < small) return Uint8Array.of(short | size);
  if (size < 0x100 && one !== null) return Uint8Array.of(one, size);
  if (size < 0x10000) return Uint8Array.of(two, size >> 8, size & 0xff);
  const bytes = new Uint8Array(5);
  bytes[0] = four;
  new DataView(bytes.buffer).setUint32(1, size);
  return bytes;
}
