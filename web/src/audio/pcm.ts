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

function bytesFromBase64(text: string): Uint8Array<ArrayBuffer> {
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

/**
 * Splits blocks of any length into blocks of exactly `size` samples. No sample is lost or
 * repeated.
 */
export class Chunker {
  readonly size: number;
  #chunk: Samples;
  #filled = 0;

  constructor(size: number) {
    if (!Number.isInteger(size) || size < 1) throw new RangeError(`invalid chunk size: ${size}`);
    this.size = size;
    this.#chunk = new Float32Array(size);
  }

  /** Number of samples that are buffered for the next chunk. */
  get pending(): number {
    return this.#filled;
  }

  push(block: Float32Array): Samples[] {
    const full: Samples[] = [];
    let at = 0;
    while (at < block.length) {
      const part = block.subarray(at, at + this.size - this.#filled);
      this.#chunk.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
      if (this.#filled === this.size) full.push(this.#take());
    }
    return full;
  }

  #take(): Samples {
    const chunk = this.#chunk;
    this.#chunk = new Float32Array(this.size);
    this.#filled = 0;
    return chunk;
  }
}

/** The browser cannot decode this file as audio. */
export class UnreadableAudio extends Error {}

/** Decodes any audio that the browser supports to mono. Rejects with UnreadableAudio. */
export async function decodeAudioFile(file: Blob, rate: number = INPUT_RATE): Promise<Samples> {
  const context = new OfflineAudioContext(1, 1, rate);
  try {
    return mono(await context.decodeAudioData(await file.arrayBuffer()));
  } catch {
    throw new UnreadableAudio(file instanceof File ? file.name : file.type);
  }
}

function mono(buffer: AudioBuffer): Samples {
  const mixed = new Float32Array(buffer.length);
  for (let channel = 0; channel < buffer.numberOfChannels; channel += 1) {
    const samples = buffer.getChannelData(channel);
    for (let i = 0; i < mixed.length; i += 1) {
      mixed[i] = (mixed[i] ?? 0) + (samples[i] ?? 0) / buffer.numberOfChannels;
    }
  }
  return mixed;
}
