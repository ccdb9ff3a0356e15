import { concatSamples, INPUT_RATE, type Samples } from "../audio/pcm.ts";

const LONGEST_SAMPLES = 75 * INPUT_RATE; // an utterance has 60 s at most, the pause after it 10 s
const FRAME = INPUT_RATE / 50;
const FAINT = 0.05; // of the loudest frame
const MARGIN = 0.15 * INPUT_RATE;

/** What was said in one turn: by the user at 16 kHz, by the model at 24 kHz. */
export interface TurnAudio {
  readonly user: Samples;
  readonly model: Samples;
}

/** The sound of every turn, so that it can be heard again. */
export class TurnAudioLog {
  #heard: Samples[] = [];
  #length = 0;
  readonly #turns: { user: Samples; model: Samples[] }[] = [];

  /** The user was heard, in or between words. */
  hear(chunk: Samples): void {
    this.#heard.push(chunk);
    this.#length += chunk.length;
    while (this.#length - (this.#heard[0] as Samples).length > LONGEST_SAMPLES) {
      this.#length -= (this.#heard.shift() as Samples).length;
    }
  }

  /** The user has finished; `speechMs` of what was heard last was speech. */
  begin(speechMs: number): void {
    this.#turns.push({ user: utterance(concatSamples(this.#heard), speechMs), model: [] });
    this.#heard = [];
    this.#length = 0;
  }

  say(audio: Samples): void {
    this.#turns.at(-1)?.model.push(audio);
  }

  /** Turns are counted from 0. */
  of(turn: number): TurnAudio {
    const { user, model } = this.#turns[turn] ?? { user: new Float32Array(0), model: [] };
    return { user, model: concatSamples(model) };
  }
}

/** The last `speechMs` of speech in what was heard, without the silence behind it. */
export function utterance(heard: Samples, speechMs: number): Samples {
  const end = Math.min(heard.length, lastLoud(heard) + MARGIN);
  const start = Math.max(0, end - 2 * MARGIN - (speechMs / 1000) * INPUT_RATE);
  return heard.slice(Math.round(start), Math.round(end));
}

/** Where the last frame ends that is not faint. */
function lastLoud(heard: Samples): number {
  const frames = Array.from({ length: Math.floor(heard.length / FRAME) }, (_, n) =>
    energy(heard.subarray(n * FRAME, (n + 1) * FRAME)),
  );
  const most = frames.reduce((a, b) => Math.max(a, b), 0);
  const last = frames.findLastIndex((value) => value > 0 && value >= FAINT * FAINT * most);
  return (last + 1) * FRAME;
}

function energy(samples: Samples): number {
  return samples.reduce((sum, sample) => sum + sample * sample, 0);
}
