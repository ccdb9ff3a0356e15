import { fetchApi } from "../api/http.ts";
import type { AudioEngine } from "../audio/audio-engine.ts";
import { concatSamples, INPUT_RATE, type Samples } from "../audio/pcm.ts";
import type { HalfDuplexClientMessage, HalfDuplexPrepare } from "../protocol/client-messages.ts";
import { connectHalfDuplex, type HalfDuplexClient, newSessionId } from "../protocol/clients.ts";
import type { HalfDuplexServerMessage } from "../protocol/server-messages.ts";
import { randomId } from "../storage/random-id.ts";
import { NEW_SESSION } from "./session.ts";
import {
  type LateConfig,
  VoiceSession,
  type VoiceSessionOptions,
  type VoiceSessionState,
} from "./voice-session.ts";

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
    const kept = this.#turns[turn] ?? { user: new Float32Array(0), model: [] };
    if (kept.model.length !== 1) kept.model = [concatSamples(kept.model)]; // one copy for all
    return { user: kept.user, model: kept.model[0] as Samples };
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

interface HalfDuplexSessionOptions extends VoiceSessionOptions {
  prepare: HalfDuplexPrepare;
  /** Let the user's speech interrupt an answer. Default true. */
  bargeIn?: boolean;
}

/** Whose turn it is. */
export type TurnState =
  | "listening"
  /** The user speaks. */
  | "hearing"
  /** The answer is generated and not yet audible. */
  | "thinking"
  | "speaking"
  /** The answer has ended. The microphone opens when the room is quiet. */
  | "settling";

export interface HalfDuplexTurnState {
  readonly id: number;
  /** Length of the user's speech, ms. 0: the model's greeting, which nobody asked for. */
  readonly speechMs: number;
  /** The user's words. Empty without a transcript, interim until the answer is complete. */
  readonly userText: string;
  readonly reply: string;
  readonly done: boolean;
  /** The answer was stopped. */
  readonly cut: boolean;
  /** From the end of the user's speech, detected by the server, to the first audio, ms. */
  readonly firstAudioMs: number | null;
}

export interface HalfDuplexSessionState extends VoiceSessionState {
  readonly turnState: TurnState;
  readonly turns: readonly HalfDuplexTurnState[];
  /** What the user has said so far. Empty unless the user speaks. */
  readonly interim: string;
  /** Time without input after which the server ends the session. */
  readonly timeoutS: number | null;
  /** When the session ends if nothing is sent, `performance.now()`. Null during an answer. */
  readonly quietDeadline: number | null;
}

const NEW_TURN: HalfDuplexTurnState = {
  id: 0,
  speechMs: 0,
  userText: "",
  reply: "",
  done: false,
  cut: false,
  firstAudioMs: null,
};

export const NEW_HALF_DUPLEX: HalfDuplexSessionState = {
  ...NEW_SESSION,
  muted: false,
  sourceEnded: false,
  turnState: "listening",
  turns: [],
  interim: "",
  timeoutS: null,
  quietDeadline: null,
};

/** Messages that answers consist of. */
const OF_ANSWERS: ReadonlySet<string> = new Set([
  "generating",
  "chunk",
  "interrupted",
  "turn_done",
]);

const CHUNK_SAMPLES = INPUT_RATE / 5;
const SETTLE_MS = 800; // echo of the last word
const STALLED_MS = 30_000; // between two messages of an answer; a slow model may take long to begin

/**
 * A half-duplex session. The user's speech interrupts an answer. Without `bargeIn`, the microphone is not
 * sent from the start of an answer until 0.8 s after its end. While it is muted, only the end of an
 * utterance is sent. Call `start` once, in a user gesture.
 */
export class HalfDuplexSession extends VoiceSession<
  HalfDuplexSessionState,
  HalfDuplexServerMessage,
  HalfDuplexClientMessage
> {
  /** Proves that a request to stop an answer comes from this page. */
  readonly #secret = randomId();
  readonly #settings: HalfDuplexSessionOptions;
  readonly #turnAudio = new TurnAudioLog();
  readonly #bargeIn: boolean;
  #askedAt = 0;
  #receivedAt = 0;
  /** The connection was replaced since the last message. */
  #replaced = false;
  #replyComplete = true;
  /** The model has said goodbye: the session ends when it has been played. */
  #leaves = false;
  #settling: ReturnType<typeof setTimeout> | undefined;

  constructor(settings: HalfDuplexSessionOptions) {
    const state = { ...NEW_HALF_DUPLEX, sessionId: newSessionId("hdx") };
    super(state, { ...settings, audio: { chunkSamples: CHUNK_SAMPLES, ...settings.audio } });
    this.#settings = settings;
    this.#bargeIn = settings.bargeIn ?? true;
  }

  /** Stops the current answer. The session continues. Rejects with ApiError. */
  async stopReply(): Promise<void> {
    const { turnState, sessionId } = this.state.value;
    if (turnState !== "thinking" && turnState !== "speaking") return;
    this.#leaves = false;
    this.#changeTurn({ cut: true });
    this.audio?.player.flush();
    if (this.#replyComplete) this.#settle();
    else {
      const body = { session_id: sessionId, client_secret: this.#secret };
      await fetchApi("/api/half_duplex/stop", { method: "POST", body });
    }
  }

  /** Falls silent at once: the answer that is generated or played is cut. */
  override stop(): void {
    if (!this.#replyComplete || this.audio?.player.stats.playing) this.#changeTurn({ cut: true });
    this.audio?.player.flush();
    super.stop();
  }

  /** Returns the audio of a turn. */
  audioOf(turn: HalfDuplexTurnState): TurnAudio {
    return this.#turnAudio.of(turn.id);
  }

  protected override prepareMessage({ voice, ...config }: LateConfig): HalfDuplexClientMessage {
    const { prepare } = this.#settings;
    const tts = { ...prepare.config?.tts, voice };
    const listening = { interim_transcripts: true, barge_in: this.#bargeIn };
    return {
      type: "prepare",
      ...prepare,
      config: { ...prepare.config, ...config, tts, ...listening },
    };
  }

  protected override stopMessage(): HalfDuplexClientMessage {
    return { type: "stop" };
  }

  protected override release(): void {
    clearTimeout(this.#settling);
    super.release();
  }

  protected override connect(audio: AudioEngine): HalfDuplexClient {
    audio.player.on("start", ({ atMs }) => this.#onPlaybackStart(atMs));
    audio.player.on("idle", () => this.#replyComplete && this.#settle());
    const { protocols = [], ...connection } = this.#settings.connection ?? {};
    const proof = `antiphon.client.${this.#secret}`; // a browser may send no cookie
    return connectHalfDuplex(this.state.value.sessionId, {
      ...connection,
      protocols: [...protocols, proof],
    });
  }

  protected override onMessage(message: HalfDuplexServerMessage): void {
    this.#replaced = false;
    this.#receivedAt = performance.now();
    // What is on its way when the user leaves may begin a new answer, which would be spoken.
    if (this.state.value.phase === "stopping" && OF_ANSWERS.has(message.type)) return;
    switch (message.type) {
      case "queued":
      case "queue_update":
        this.onQueued(message);
        break;
      case "queue_done":
        void this.prepare();
        break;
      case "prepared":
        this.#prepared(message.recording_session_id, message.timeout_s);
        break;
      case "vad_state":
        this.patch({
          turnState: message.speaking ? "hearing" : "listening",
          interim: message.interim_user_text ?? (message.speaking ? "" : this.state.value.interim),
        });
        break;
      case "generating":
        this.#generating(message.speech_duration_ms);
        break;
      case "chunk":
        this.#chunk(message.text_delta, message.audio_data);
        break;
      case "interrupted":
        this.#interrupted(message.text);
        break;
      case "turn_done":
        this.#leaves = message.goodbye && !this.state.value.turns.at(-1)?.cut;
        this.#turnDone({ reply: message.text, userText: message.user_text ?? "" }); // now final
        break;
      case "stopped":
        this.stopped();
        break;
      case "timeout":
        this.end({ by: "timeout", code: "timeout", message: "" });
        break;
      case "error":
        this.onError(message);
        if (!this.#replyComplete) this.#turnDone({}); // a failed answer has ended
    }
  }

  protected override onChunk(chunk: Samples): void {
    const { phase, turnState, muted } = this.state.value;
    if (phase === "active") this.#watchConnection();
    const hears = this.#bargeIn || turnState === "listening";
    const open = turnState === "hearing" || (hears && !muted);
    if (phase !== "active" || !open) return;
    const durationMs = (chunk.length / INPUT_RATE) * 1000;
    this.client.sendPerishable({ type: "audio_chunk", audio_base64: chunk }, durationMs);
    this.#turnAudio.addInput(chunk);
    this.patch({ quietDeadline: this.#deadline });
  }

  /** Replaces a connection, once, that may be dead although it is open: an answer does not continue. */
  #watchConnection(): void {
    const stalled = performance.now() - this.#receivedAt > STALLED_MS;
    if (this.#replaced || this.#replyComplete || !stalled) return;
    this.#replaced = true;
    this.client.reconnect();
  }

  /** When the server ends the session if nothing is sent. */
  get #deadline(): number | null {
    const { timeoutS } = this.state.value;
    return timeoutS === null ? null : performance.now() + timeoutS * 1000;
  }

  #prepared(recordingId: string | null, timeoutS: number): void {
    if (this.state.value.phase !== "preparing") return;
    this.patch({ phase: "active", recordingId, timeoutS });
    this.patch({ quietDeadline: this.#deadline });
    this.startAudio();
  }

  #generating(speechMs: number): void {
    this.#askedAt = performance.now();
    this.#replyComplete = false;
    this.#leaves = false;
    const { turns, interim: userText } = this.state.value;
    this.#turnAudio.begin(speechMs);
    const turn = { ...NEW_TURN, id: turns.length, speechMs, userText };
    const changes = { turns: [...turns, turn], interim: "", quietDeadline: null };
    this.patch({ turnState: "thinking", ...changes });
    if (!this.#bargeIn) this.audio?.source.pause();
  }

  /** The user speaks: the rest of the answer does not play. */
  #interrupted(reply: string): void {
    this.#leaves = false;
    this.#changeTurn({ reply, cut: true });
    this.audio?.player.flush();
    if (this.#replyComplete) this.patch({ turnState: "listening" });
  }

  #chunk(text: string, audio: Samples): void {
    const turn = this.state.value.turns.at(-1);
    if (!turn || turn.cut) return;
    this.#changeTurn({ reply: turn.reply + text });
    this.#turnAudio.addOutput(audio);
    this.audio?.player.push(audio);
  }

  #turnDone(change: Partial<HalfDuplexTurnState>): void {
    this.#replyComplete = true;
    this.#changeTurn({ ...change, done: true });
    this.patch({ quietDeadline: this.#deadline });
    this.audio?.player.endTurn();
    if (!this.audio?.player.stats.playing) this.#settle();
  }

  #onPlaybackStart(atMs: number): void {
    this.patch({ turnState: "speaking" });
    if (this.state.value.turns.at(-1)?.speechMs !== 0)
      this.#changeTurn({ firstAudioMs: atMs - this.#askedAt });
  }

  #settle(): void {
    const leaves = (): boolean => this.#leaves && this.state.value.phase === "active";
    if (leaves()) {
      this.stopWhenHeard(leaves);
      return;
    }
    if (this.#bargeIn) {
      this.patch({ turnState: "listening" });
      return;
    }
    this.patch({ turnState: "settling" });
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => {
      this.patch({ turnState: "listening" });
      void this.audio?.start();
    }, SETTLE_MS);
  }

  #changeTurn(change: Partial<HalfDuplexTurnState>): void {
    const last = this.state.value.turns.length - 1;
    const changed = (turn: HalfDuplexTurnState, n: number): HalfDuplexTurnState =>
      n === last ? { ...turn, ...change } : turn;
    this.patch({ turns: this.state.value.turns.map(changed) });
  }
}
