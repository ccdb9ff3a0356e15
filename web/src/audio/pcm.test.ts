import { expect, it } from "vitest";
import { base64FromSamples, pcm16FromSamples, samplesFromBase64 } from "./pcm.ts";
import { sine } from "./test-signals.ts";

it("writes base64 as the server reads it: little-endian float32", () => {
  expect(base64FromSamples(Float32Array.of(1, -0.5))).toBe("AACAPwAAAL8=");
});

it("gets back every sample of a second", () => {
  const second = sine(440, 24_000, 1);
  expect(samplesFromBase64(base64FromSamples(second))).toEqual(second);
});

it("writes only the part of a buffer that it was given", () => {
  const part = Float32Array.of(9, 1, -0.5, 9).subarray(1, 3);
  expect(base64FromSamples(part)).toBe("AACAPwAAAL8=");
});

it("refuses bytes that are no whole samples", () => {
  expect(() => samplesFromBase64("AAAA")).toThrow(RangeError);
});

it("clips what is too loud for 16 bit", () => {
  expect([...pcm16FromSamples(Float32Array.of(-2, -1, 0, 1, 2))]).toEqual([
    -32768, -32768, 0, 32767, 32767,
  ]);
});
