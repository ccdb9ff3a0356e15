// A browser page without a browser: runs one of the documented page scripts and is its microphone,
// its loudspeaker and its console. The microphone hears silence until the console says `speak()`.
//
// node page.mjs SCRIPT HOST QUESTION REFERENCE PLAYED: both recordings are raw float32 at 16 kHz;
// what the page plays (float32 at 24 kHz) goes to PLAYED.

import { appendFileSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { runInThisContext } from 'node:vm';

const [script, host, question, reference, played] = process.argv.slice(2);
const CAPTURE_CHUNK = 8000;  // samples, where a page does not say
const PLAYBACK_BYTES_PER_MS = (24000 / 1000) * 4;

function samplesOf(path) {
  const bytes = readFileSync(path);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

class Microphone {
  #ahead = [];  // Float32Arrays that were not heard yet

  speak() {
    this.#ahead.push(samplesOf(question));
  }

  hear(count) {
    const heard = new Float32Array(count);
    for (let filled = 0; filled < count && this.#ahead.length > 0;) {
      const part = this.#ahead[0].subarray(0, count - filled);
      heard.set(part, filled);
      filled += part.length;
      const rest = this.#ahead[0].subarray(part.length);
      this.#ahead.splice(0, 1, ...(rest.length > 0 ? [rest] : []));
    }
    return heard;
  }
}

const microphone = new Microphone();
let playsUntil = 0;

class Context {
  audioWorklet = { addModule: async () => {} };

  constructor({ sampleRate }) {
    this.sampleRate = sampleRate;
  }

  createMediaStreamSource(stream) {
    return { connect: (node) => node.start(stream) };
  }
}

class CaptureNode {
  port = { onmessage: null };

  constructor(context, name, { processorOptions = {} } = {}) {
    this.size = processorOptions.chunkSize ?? CAPTURE_CHUNK;
    this.period = (1000 * this.size) / context.sampleRate;
  }

  start(stream) {
    setInterval(() => {
      this.port.onmessage?.({ data: { type: 'chunk', audio: stream.hear(this.size) } });
    }, this.period);
  }
}

function play(base64) {
  const sound = Buffer.from(base64, 'base64');
  appendFileSync(played, sound);
  playsUntil = Math.max(playsUntil, Date.now()) + sound.length / PLAYBACK_BYTES_PER_MS;
}

const base64 = (buffer) => Buffer.from(buffer).toString('base64');
const page = {
  location: { host },
  navigator: { mediaDevices: { getUserMedia: async () => microphone } },
  AudioContext: Context,
  AudioWorkletNode: CaptureNode,
  getRefAudioBase64: () => readFileSync(reference).toString('base64'),
  arrayBufferToBase64: base64,
  float32ToBase64: (samples) => base64(samples.buffer),
  playAudio: play,
  getPlaybackRemaining: () => Math.max(0, playsUntil - Date.now()),
  speak: () => microphone.speak(),
};
for (const [name, value] of Object.entries(page)) {
  Object.defineProperty(globalThis, name, { value });
}

runInThisContext(readFileSync(script, 'utf8'), { filename: script });
createInterface({ input: process.stdin })
  .on('line', (line) => runInThisContext(line))
  .on('close', () => process.exit());
