/**
 * Mono float32 PCM: sample rates of both directions, and base64 of little-endian bytes as on the
 * wire.
 */

export const INPUT_RATE = 16_000;
export const OUTPUT_RATE = 24_000;

const BYTES_PER_CALL = 0x8000; // a number of arguments for String.fromCharCode that every browser accepts

export type Samples = Float32Array<ArrayBuffer>;

export function base64FromBytes(bytes: Uint8Array): string {
  const pieces: string[] = [];
  for (let at = 0; at < bytes.length; at += BYTES_PER_CALL) {
    pieces.push(String.fromCharCode(...bytes.subarray(at, at + BYTES_PER_CALL)));
  }
  return btoa(pieces.join(""));
}

export function bytesFromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export function base64FromSamples(samples: Float32Array): string {
  return base64FromBytes(new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength));
}

/** Throws when `text` is not base64 of whole float32 samples. */
export function samplesFromBase64(text: string): Samples {
  const bytes = bytesFromBase64(text);
  if (bytes.length % 4 !== 0) throw new RangeError(`${bytes.length} bytes are not float32 samples`);
  return new Float32Array(bytes.buffer);
}

export function concatSamples(parts: readonly Float32Array[]): Samples {
  const whole = new Float32Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Values beyond the range are clipped. */
export function pcm16FromSamples(samples: Float32Array): Int16Array<ArrayBuffer> {
  return Int16Array.from(samples, (value) => {
    const clipped = Math.max(-1, Math.min(1, value));
    return Math.round(clipped * (clipped < 0 ? 0x8000 : 0x7fff));
  });
}
