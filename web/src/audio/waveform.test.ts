import { expect, it, test } from "vitest";
import { wavFile } from "./stereo-recorder.ts";
import { peaksOf, readWaveform, type Waveform } from "./waveform.ts";

/** One second with the right side half as loud, in pieces that split samples. */
function stream(blob: Blob, piece: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async start(controller) {
      const bytes = new Uint8Array(await blob.arrayBuffer());
      for (let at = 0; at < bytes.length; at += piece) {
        controller.enqueue(bytes.slice(at, at + piece));
      }
      controller.close();
    },
  });
}

test("returns the peaks of both sides for any split of the bytes", async () => {
  const rate = 2400;
  const samples = new Int16Array(2 * rate);
  for (let i = 0; i < rate; i++) {
    const size = i < rate / 2 ? 0 : 0x4000;
    samples[2 * i] = i % 2 ? size : -size;
    samples[2 * i + 1] = size / 2;
  }
  const blob = wavFile([new Blob([samples])], { channels: 2, rate });
  for (const piece of [7, 1000, 100_000]) {
    let shape: Waveform | null = null;
    await readWaveform(
      stream(blob, piece),
      (read) => {
        shape = read;
      },
      { rate: 4 },
    );
    expect(shape).toMatchObject({ rate: 4, seconds: 1 });
    const { channels } = shape as unknown as Waveform;
    expect(channels.map((peaks) => [...peaks])).toEqual([
      [0, 0, 0.5, 0.5],
      [0, 0, 0.25, 0.25],
    ]);
  }
});

test("rejects other formats", async () => {
  const text = new Blob(["not a sound, though long enough to hold a header of one"]);
  await expect(readWaveform(stream(text, 10), () => undefined)).rejects.toThrow("16-bit WAV");
  await expect(readWaveform(stream(new Blob(["RIFF"]), 10), () => undefined)).rejects.toThrow(
    "truncated",
  );
});

it("scales to the highest absolute value", () => {
  const sound = Float32Array.of(0, 0.1, -0.4, 0.2, 0, 0);
  expect(peaksOf(sound, 3).map((peak) => Number(peak.toFixed(3)))).toEqual([0.25, 1, 0]);
});

it("returns all values for short audio", () => {
  expect(peaksOf(Float32Array.of(0.5), 4)).toHaveLength(4);
  expect(peaksOf(new Float32Array(0), 2)).toEqual([0, 0]);
});
