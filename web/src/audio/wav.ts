const HEADER_BYTES = 44;

export interface WavFormat {
  channels: number;
  rate: number;
}

/** A 16-bit WAV file of interleaved samples. */
export function wavBlob(parts: readonly Int16Array<ArrayBuffer>[], format: WavFormat): Blob {
  const bytes = parts.reduce((total, part) => total + part.byteLength, 0);
  return new Blob([wavHeader(bytes, format), ...parts], { type: "audio/wav" });
}

function wavHeader(dataBytes: number, { channels, rate }: WavFormat): ArrayBuffer {
  const view = new DataView(new ArrayBuffer(HEADER_BYTES));
  const frameBytes = 2 * channels;
  writeWord(view, 0, "RIFF");
  view.setUint32(4, HEADER_BYTES - 8 + dataBytes, true);
  writeWord(view, 8, "WAVE");
  writeWord(view, 12, "fmt ");
  view.setUint32(16, 16, true); // length of what follows in this part
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, channels, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * frameBytes, true);
  view.setUint16(32, frameBytes, true);
  view.setUint16(34, 16, true); // bits
  writeWord(view, 36, "data");
  view.setUint32(40, dataBytes, true);
  return view.buffer;
}

function writeWord(view: DataView, at: number, word: string): void {
  for (let i = 0; i < 4; i++) view.setUint8(at + i, word.charCodeAt(i));
}
