import { concatSamples, INPUT_RATE, type Samples } from "../audio/pcm.ts";

const LONGEST_SAMPLES = 75 * INPUT_RATE; // 60 s for an utterance and 10 s for the pause after it
const FRAME = INPUT_RATE / 50;
const FAINT = 0.05; // relative to the loudest frame
const MARGIN = 0.15 * INPUT_RATE;

/** Audio of a turn: user at 16 kHz, model at 24 kHz. */
export interface TurnAudio {
  readonly user: Samples;
  readonly model: Samples;
}

/** Keeps the audio of every turn for playback. */
export class TurnAudioLog {
  #input: Samples[] = [];
  #length = 0;
  readonly #turns: { user: Samples; model: Samples[] }[] = [];

  /** Adds microphone input, including pauses. */
  addInput(chunk: Samples): void {
    this.#input.push(chunk);
    this.#length += chunk.length;
    while (this.#length - (this.#input[0] as Samples).length > LONGEST_SAMPLES) {
      this.#length -= (this.#input.shift() as Samples).length;
    }
  }

  /** The user finished. The last `speechMs` of speech belong to the turn. */
  begin(speechMs: number): void {
    this.#turns.push({ user: utterance(concatSamples(this.#input), speechMs), model: [] });
    this.#input = [];
    this.#length = 0;
  }

  addOutput(audio: Samples): void {
    this.#turns.at(-1)?.model.push(audio);
  }

  /** Turns count from 0. */
  of(turn: number): TurnAudio {
    const { user, model } = this.#turns[turn] ?? { user: new Float32Array(0), model: [] };
    return { user, model: concatSamples(model) };
  }
}

/** Returns the last `speechMs` of speech without the silence after it. */
export function utterance(input: Samples, speechMs: number): Samples {
  const end = Math.min(input.length, endOfSpeech(input) + MARGIN);
  const start = Math.max(0, end - 2 * MARGIN - (speechMs / 1000) * INPUT_RATE);
  return input.slice(Math.round(start), Math.round(end));
}

/** End of the last frame that is not faint. */
function endOfSpeech(input: Samples): number {
  const frames = Array.from({ length: Math.floor(input.length / FRAME) }, (_, n) =>
    energy(input.subarray(n * FRAME, (n + 1) * FRAME)),
  );
  const most = frames.reduce((a, b) => Math.max(a, b), 0);
  const last = frames.findLastIndex((value) => value > 0 && value >= FAINT * FAINT * most);
  return (last + 1) * FRAME;
}

function energy(samples: Samples): number {
  return samples.reduce((sum, sample) => sum + sample * sample, 0);
}
