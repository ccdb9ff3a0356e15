import { INPUT_RATE, type Samples } from "../audio/pcm.ts";

/** The browser cannot decode this file as audio. */
export class UnreadableAudio extends Error {}

/** Decodes any audio that the browser supports to mono at 16 kHz. Rejects with UnreadableAudio. */
export async function decodeAudioFile(file: Blob): Promise<Samples> {
  const context = new OfflineAudioContext(1, 1, INPUT_RATE);
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
