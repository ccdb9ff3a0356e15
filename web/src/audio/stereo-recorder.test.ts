import { expect, it, vi } from "vitest";
import { StereoRecorder } from "./stereo-recorder.ts";
import { sine } from "./test-signals.ts";
import { levelDb } from "./voice-activity.ts";

interface Wav {
  header: DataView;
  left: Float32Array;
  right: Float32Array;
}

async function read(recorder: StereoRecorder): Promise<Wav> {
  const file = await recorder.blob().arrayBuffer();
  const data = new Int16Array(file, 44);
  return {
    header: new DataView(file, 0, 44),
    left: Float32Array.from(
      data.filter((_, n) => n % 2 === 0),
      (v) => v / 0x8000,
    ),
    right: Float32Array.from(
      data.filter((_, n) => n % 2 === 1),
      (v) => v / 0x8000,
    ),
  };
}

function record(recorder: StereoRecorder, seconds: number, sides: "both" | "user"): void {
  const user = sine(1000, 16_000, seconds, 0.5);
  const model = sine(500, 24_000, seconds, 0.25);
  for (let block = 0; block < seconds * 50; block++) {
    recorder.pushUser(user.subarray(block * 320, (block + 1) * 320));
    if (sides === "both") recorder.pushModel(model.subarray(block * 480, (block + 1) * 480));
  }
}

it("writes a WAV file with the user left and the model right, in sync", async () => {
  const recorder = new StereoRecorder();
  record(recorder, 2, "both");
  const { header, left, right } = await read(recorder);
  expect(new TextDecoder().decode(header).replace(/[^\w ]/g, "")).toMatch(/^RIFF.*WAVEfmt .*data$/);
  expect(header.getUint16(22, true)).toBe(2);
  expect(header.getUint32(24, true)).toBe(24_000);
  expect(header.getUint32(40, true)).toBe(4 * left.length);
  expect(recorder.seconds).toBeGreaterThan(1.85);
  const expected = sine(1000, 24_000, 2, 0.5);
  const error = left.map((value, n) => value - (expected[n] ?? 0));
  expect(levelDb(error.subarray(2400))).toBeLessThan(-80);
  expect(levelDb(right)).toBeCloseTo(levelDb(sine(500, 24_000, 1, 0.25)), 1);
});

it("fills a paused side with silence", async () => {
  const recorder = new StereoRecorder();
  record(recorder, 3, "user");
  record(recorder, 1, "both");
  const { left, right } = await read(recorder);
  expect(left.length).toBe(right.length);
  expect(recorder.seconds).toBeGreaterThan(3);
  expect(levelDb(right.subarray(0, 24_000))).toBe(-Infinity);
  expect(levelDb(right.subarray(-12_000))).toBeGreaterThan(-20);
});

it("hands older samples to blobs, which need not be in memory", async () => {
  const parts: BlobPart[][] = [];
  vi.stubGlobal(
    "Blob",
    class extends Blob {
      constructor(of: BlobPart[], options?: BlobPropertyBag) {
        super(of, options);
        parts.push(of);
      }
    },
  );
  const recorder = new StereoRecorder();
  record(recorder, 22, "both");
  const file = recorder.blob();
  vi.unstubAllGlobals();
  const inMemory = Math.max(...parts.map((of) => of.filter(ArrayBuffer.isView).length));
  expect(inMemory).toBeLessThanOrEqual(100);
  expect(file.size).toBe(44 + 4 * 24_000 * recorder.seconds);
  const { left } = await read(recorder);
  const expected = sine(1000, 24_000, 22, 0.5);
  expect(levelDb(left.map((value, n) => value - (expected[n] ?? 0)).subarray(2400))).toBeLessThan(
    -80,
  );
});
