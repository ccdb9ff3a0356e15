import { expect, it } from "vitest";
import { Chunker } from "./chunker.ts";
import { concatSamples } from "./pcm.ts";

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

it("drops buffered samples", () => {
  const chunker = new Chunker(4);
  chunker.push(Float32Array.of(9, 9, 9));
  chunker.clear();
  expect(chunker.push(Float32Array.of(1, 2, 3, 4))).toEqual([Float32Array.of(1, 2, 3, 4)]);
});

it("rejects an invalid size", () => {
  expect(() => new Chunker(0.5)).toThrow(RangeError);
});
