import { Chunker, INPUT_RATE, type Samples } from "./pcm.ts";

/** Samples at 16 kHz of a frame of the Silero network: 32 ms. */
export const STEP_SAMPLES = 512;

interface VoiceActivityLimits {
  /** Minimum level of speech, dBFS. */
  minDb: number;
  /** Time of activity until speech starts, ms. */
  onsetMs: number;
  /** Time without activity until speech ends, ms. */
  hangoverMs: number;
}

export const LOUDNESS_LIMITS: VoiceActivityLimits & {
  /** Level of speech above the background, dB. */
  aboveFloorDb: number;
} = { aboveFloorDb: 12, minDb: -45, onsetMs: 120, hangoverMs: 500 };

const SILERO_LIMITS: VoiceActivityLimits & {
  /** Probability that starts, and that continues speech. */
  startAt: number;
  continueAt: number;
  /** Speech does not start more than `maxDropDb` below the loudest frame of the last `dropMs`. */
  maxDropDb: number;
  dropMs: number;
} = {
  startAt: 0.8,
  continueAt: 0.35,
  minDb: -45,
  maxDropDb: 12,
  dropMs: 512,
  onsetMs: 96,
  hangoverMs: 352,
};

const FLOOR_START_DB = -60;
const FLOOR_RISE_DB_PER_S = 3; // steady noise such as a fan becomes background after some seconds

/** Decides when the user starts and stops to speak. Pure. */
abstract class VoiceActivityDetector<Limits extends VoiceActivityLimits> {
  protected readonly limits: Limits;
  /** Activity that has not become speech yet, less the pauses in it. */
  #activeMs = 0;
  #quietMs = Infinity;
  #voiceMs = 0;
  #speaking = false;

  constructor(limits: Limits) {
    this.limits = limits;
  }

  get speaking(): boolean {
    return this.#speaking;
  }

  /** Time since the last activity. Infinity before the first. */
  get quietMs(): number {
    return this.#quietMs;
  }

  /** Time since the first activity of the current speech, or of what may become speech. */
  get voiceMs(): number {
    return this.#voiceMs;
  }

  protected observe(active: boolean, ms: number): void {
    const { onsetMs, hangoverMs } = this.limits;
    this.#activeMs = active ? this.#activeMs + ms : Math.max(0, this.#activeMs - 2 * ms);
    this.#quietMs = active ? 0 : this.#quietMs + ms;
    const speaking = this.#speaking ? this.#quietMs < hangoverMs : this.#activeMs >= onsetMs;
    if (speaking !== this.#speaking) this.#activeMs = 0;
    this.#speaking = speaking;
    this.#voiceMs = speaking || this.#activeMs > 0 ? this.#voiceMs + ms : 0;
  }
}

/** Detects sound above an adaptive noise floor, also coughs and the keyboard. */
export class LoudnessDetector extends VoiceActivityDetector<typeof LOUDNESS_LIMITS> {
  #floorDb = FLOOR_START_DB;

  constructor(limits = LOUDNESS_LIMITS) {
    super(limits);
  }

  push(block: Float32Array, blockMs: number): void {
    const db = levelDb(block);
    const { aboveFloorDb, minDb } = this.limits;
    this.observe(db > Math.max(minDb, this.#floorDb + aboveFloorDb), blockMs);
    const floorDb = Math.min(db, this.#floorDb + (FLOOR_RISE_DB_PER_S * blockMs) / 1000);
    this.#floorDb = Math.max(floorDb, FLOOR_START_DB);
  }
}

/**
 * Detects speech from the probabilities of the Silero network. Quiet speech, such as a
 * television or an echo of the model, does not count. A cough is loud first and then fades: its
 * quiet end resembles a voice, so speech does not start in the fading end of a loud sound. Some coughs still start
 * speech: the server decides whether the user interrupts.
 */
export class SpeechDetector extends VoiceActivityDetector<typeof SILERO_LIMITS> {
  #recentDb: number[] = [];

  constructor(limits = SILERO_LIMITS) {
    super(limits);
  }

  /** `probability` of speech and level of a frame. */
  push(probability: number, db: number, frameMs: number): void {
    const { startAt, continueAt, minDb, maxDropDb, dropMs } = this.limits;
    this.#recentDb = [...this.#recentDb, db].slice(-Math.round(dropMs / frameMs) - 1);
    const speech = this.speaking
      ? probability >= continueAt
      : probability >= startAt && db >= Math.max(...this.#recentDb) - maxDropDb;
    this.observe(speech && db > minDb, frameMs);
  }
}

/** RMS level in dBFS. -Infinity for zeros. */
export function levelDb(block: Float32Array): number {
  const power = block.reduce((sum, value) => sum + value * value, 0) / block.length;
  return 10 * Math.log10(power);
}

const STEP_MS = (STEP_SAMPLES / INPUT_RATE) * 1000;

/** Computes the probability, in [0, 1], that the next `STEP_SAMPLES` samples at 16 kHz are speech. */
export interface SpeechNetwork {
  step(samples: Samples): number;
}

/** How the user's voice changes. A cough can begin and end as well. */
export type VoiceChange = "begins" | "ends";

/**
 * Whether the user speaks. A network decides if there is one. Until it is loaded, or if it cannot
 * be loaded, the loudness decides.
 */
export class UserVoice {
  readonly #loudness = new LoudnessDetector();
  readonly #speech = new SpeechDetector();
  readonly #chunker = new Chunker(STEP_SAMPLES);
  #network: SpeechNetwork | undefined;
  #detector: LoudnessDetector | SpeechDetector = this.#loudness;

  constructor(loading?: Promise<SpeechNetwork>) {
    loading?.then(
      (network) => {
        this.#network = network;
      },
      () => undefined,
    );
  }

  get speaking(): boolean {
    return this.#detector.speaking;
  }

  /** Time since the last speech. Infinity before the first. */
  get quietMs(): number {
    return this.#detector.quietMs;
  }

  /** Time since the first sound of the current speech. 0 in a pause. */
  get voiceMs(): number {
    return this.#detector.voiceMs;
  }

  /** Captured audio at 16 kHz. Returns what changes, in order. */
  push(block: Samples, blockMs: number): VoiceChange[] {
    const { speaking } = this.#detector;
    this.#loudness.push(block, blockMs);
    if (this.#network) this.#listen(this.#network, block);
    if (this.#detector.speaking === speaking) return [];
    return speaking ? ["ends"] : ["begins"];
  }

  /** The network takes over in a pause, so that one sound does not count twice. */
  #listen(network: SpeechNetwork, block: Samples): void {
    for (const step of this.#chunker.push(block)) {
      this.#speech.push(network.step(step), levelDb(step), STEP_MS);
    }
    if (!this.#loudness.speaking) this.#detector = this.#speech;
  }
}
