import { expect, it } from "vitest";
import { samplesFromBase64 } from "../audio/pcm.ts";
import { decodeFrame, encodeFrame, encodeText } from "./frames.ts";

const SOUND = Float32Array.of(0.5, -0.25, 1);
const PICTURE = Uint8Array.of(0xff, 0xd8, 1, 2, 3);

it("encodes audio and images as base64 in text", () => {
  const text = encodeText({
    type: "audio_chunk",
    audio: SOUND,
    frame_base64_list: [PICTURE],
    n: 1,
  });
  const message = JSON.parse(text);
  expect(samplesFromBase64(message.audio)).toEqual(SOUND);
  expect(message).toMatchObject({ type: "audio_chunk", frame_base64_list: ["/9gBAgM="], n: 1 });
});

it("encodes a Buffer of Node.js as any other bytes", () => {
  const message = (data: Uint8Array) => ({ messages: [{ content: [{ type: "image", data }] }] });
  expect(encodeText(message(Buffer.from(PICTURE)))).toBe(encodeText(message(PICTURE)));
  expect(encodeFrame(message(Buffer.from(PICTURE)))).toEqual(encodeFrame(message(PICTURE)));
});

it("omits undefined fields", () => {
  expect(encodeText({ type: "pause", timeout: undefined })).toBe('{"type":"pause"}');
});

it("encodes 16-bit audio and unchanged images in a binary frame", () => {
  const frame = encodeFrame({ type: "audio_chunk", audio: SOUND, frame_base64_list: [PICTURE] });
  if (typeof frame === "string") throw new Error("not binary");
  const length = new DataView(frame).getUint32(0, true);
  expect((4 + length) % 4).toBe(0);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(frame, 4, length)));
  expect(header).toEqual({
    type: "audio_chunk",
    audio: { at: 0, bytes: 6, format: "s16" },
    frame_base64_list: [{ at: 6, bytes: 5 }],
  });
  const payload = new Uint8Array(frame, 4 + length);
  expect(new Int16Array(payload.slice(0, 6).buffer)).toEqual(Int16Array.of(16_384, -8192, 32_767));
  expect(payload.slice(6)).toEqual(PICTURE);
});

it("encodes text if there is no media", () => {
  expect(encodeFrame({ type: "stop" })).toBe('{"type":"stop"}');
});

it("decodes the audio of a binary frame at any offset, in both formats", () => {
  const frame = binary({ type: "result", audio_data: { at: 1, bytes: 12, format: "f32" } }, [
    Uint8Array.of(9),
    new Uint8Array(SOUND.buffer),
  ]);
  expect(decodeFrame(frame)).toEqual({ type: "result", audio_data: SOUND });
  const short = binary({ audio_data: { at: 0, bytes: 4, format: "s16" } }, [
    new Uint8Array(Int16Array.of(-32_768, 16_384).buffer),
  ]);
  expect(decodeFrame(short)).toEqual({ audio_data: Float32Array.of(-1, 0.5) });
});

it("rejects truncated frames and invalid JSON", () => {
  expect(() => decodeFrame(binary({ a: { at: 0, bytes: 8, format: "f32" } }, []))).toThrow(
    RangeError,
  );
  expect(() => decodeFrame("{")).toThrow(SyntaxError);
});

function binary(header: object, payload: Uint8Array[]): ArrayBuffer {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = new Uint8Array(Uint32Array.of(text.length).buffer);
  const parts = [length, text, ...payload];
  const frame = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    frame.set(part, at);
    at += part.length;
  }
  return frame.buffer;
}
