import { expect, it } from "vitest";
import {
  base64FromSamples,
  Chunker,
  concatSamples,
  pcm16FromSamples,
  samplesFromBase64,
} from "./pcm.ts";
import { sine } from "./test-signals.ts";

it("encodes little-endian float32", () => {
  expect(base64FromSamples(Float32Array.of(1, -0.5))).toBe("AACAPwAAAL8=");
});

it("decodes every sample", () => {
  const second = sine(440, 24_000, 1);
  expect(samplesFromBase64(base64FromSamples(second))).toEqual(second);
});

it("encodes only the given part of a buffer", () => {
  const part = Float32Array.of(9, 1, -0.5, 9).subarray(1, 3);
  expect(base64FromSamples(part)).toBe("AACAPwAAAL8=");
});

it("rejects incomplete samples", () => {
  expect(() => samplesFromBase64("AAAA")).toThrow(RangeError);
});

it("clips values beyond 16 bit", () => {
  expect([...pcm16FromSamples(Float32Array.of(-2, -1, 0, 1, 2))]).toEqual([
    -32768, -32768, 0, 32767, 32767,
  ]);
});

it("makes exact chunks from blocks of any length", () => {
  const chunker = new Chunker(16_000);
  const input = Float32Array.from({ length: 50_000 }, (_, n) => n);
  const chunks: Float32Array[] = [];
  for (let at = 0; at < input.length; at += 128) {
    chunks.push(...chunker.push(input.subarray(at, at + 128)));
  }
  expect(chunks.map((chunk) => chunk.length)).toEqual([16_000, 16_000, 16_000]);
  expect(concatSamples(chunks)).toEqual(input.slice(0, 48_000));
  expect(chunker.pending).toBe(2000);
});

it("splits a long block into several chunks", () => {
  expect(new Chunker(4).push(new Float32Array(13))).toHaveLength(3);
});

it("rejects an invalid size", () => {
  expect(() => new Chunker(0.5)).toThrow(RangeError);
});
