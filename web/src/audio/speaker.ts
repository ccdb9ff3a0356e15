import { TypedEvents } from "../state/store.ts";
import { closeTap, openTap, resumeWhenVisible, startContext } from "./audio-context.ts";
import { MixerChannel } from "./mixer-channel.ts";
import { OUTPUT_RATE, type Samples } from "./pcm.ts";
import { type DelayLimits, delayLimitsFrom, Player } from "./player.ts";

const CONNECT_MS = 3000;
const DRAIN_MS = 200; // until the delayed audio has been played
const WATCH_MS = 2000;
const CODEC_MS = 20; // 10 ms packets and the look-ahead of Opus

/**
 * From `RTCInboundRtpStreamStats`, totals since the start: duration in seconds and number of
 * samples.
 */
interface JitterReport {
  type: string;
  jitterBufferDelay: number;
  jitterBufferEmittedCount: number;
}

/**
 * Routes playback through a peer connection of this page with itself, so that every browser's echo
 * canceller sees it. Adds some tens of milliseconds, so it is used only if needed.
 */
class PeerLoopback {
  readonly input: MediaStreamAudioDestinationNode;
  readonly #element = new Audio();
  readonly #sender = new RTCPeerConnection();
  readonly #receiver = new RTCPeerConnection();
  #bufferMs = 30;
  #drained: ReturnType<typeof setTimeout> | undefined;
  #watch: ReturnType<typeof setInterval> | undefined;

  static async open(context: AudioContext): Promise<PeerLoopback> {
    const path = new PeerLoopback(context);
    try {
      await path.#connect();
    } catch (error) {
      path.close();
      throw error;
    }
    return path;
  }

  private constructor(context: AudioContext) {
    this.input = context.createMediaStreamDestination();
    passCandidates(this.#sender, this.#receiver);
    passCandidates(this.#receiver, this.#sender);
  }

  /** Recent extra latency compared with direct playback. */
  get delayMs(): number {
    return CODEC_MS + this.#bufferMs;
  }

  /** Mutes audio that is still in transit. */
  silence(): void {
    this.#element.muted = true;
    clearTimeout(this.#drained);
    this.#drained = setTimeout(() => {
      this.#element.muted = false;
    }, DRAIN_MS);
  }

  async setSpeaker(deviceId: string): Promise<void> {
    await this.#element.setSinkId(deviceId);
  }

  close(): void {
    clearInterval(this.#watch);
    clearTimeout(this.#drained);
    this.#element.srcObject = null;
    this.#sender.close();
    this.#receiver.close();
  }

  async #connect(): Promise<void> {
    const arrived = new Promise<RTCTrackEvent>((resolve) => {
      this.#receiver.ontrack = resolve;
    });
    const { stream } = this.input;
    for (const track of stream.getTracks()) this.#sender.addTrack(track, stream);
    await this.#negotiate();
    const { receiver, track } = await arrived;
    receiver.jitterBufferTarget = 0; // both ends are in this page, so no packet is lost
    this.#element.srcObject = new MediaStream([track]);
    await Promise.all([this.#element.play(), connected(this.#receiver)]);
    this.#watch = setInterval(() => void this.#measure(receiver), WATCH_MS);
  }

  async #measure(receiver: RTCRtpReceiver): Promise<void> {
    for (const report of (await receiver.getStats()).values() as Iterable<JitterReport>) {
      if (report.type !== "inbound-rtp" || !report.jitterBufferEmittedCount) continue;
      this.#bufferMs = (1000 * report.jitterBufferDelay) / report.jitterBufferEmittedCount;
    }
  }

  /** Sets both descriptions before candidates are exchanged. */
  async #negotiate(): Promise<void> {
    const offer = await this.#sender.createOffer();
    await this.#receiver.setRemoteDescription(offer);
    await this.#sender.setLocalDescription(offer);
    const answer = await this.#receiver.createAnswer();
    await this.#sender.setRemoteDescription({
      type: answer.type,
      sdp: tuneOpusForSpeech(answer.sdp ?? ""),
    });
    await this.#receiver.setLocalDescription(answer);
  }
}

function passCandidates(from: RTCPeerConnection, to: RTCPeerConnection): void {
  from.onicecandidate = ({ candidate }) => {
    if (candidate && to.signalingState !== "closed") void to.addIceCandidate(candidate);
  };
}

/** Fails if the browser forbids the connection. Otherwise there would be silence and no error. */
function connected(peer: RTCPeerConnection): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (): void =>
      reject(new Error(`loopback connection failed: ${peer.connectionState}`));
    const timer = setTimeout(fail, CONNECT_MS);
    peer.onconnectionstatechange = () => {
      if (peer.connectionState === "connected") resolve();
      else if (peer.connectionState === "failed") fail();
      else return;
      clearTimeout(timer);
    };
  });
}

/**
 * Sets an Opus bitrate that keeps 24 kHz speech transparent, with short packets and without DTX.
 */
export function tuneOpusForSpeech(sdp: string): string {
  const payload = /a=rtpmap:(\d+) opus\/48000/.exec(sdp)?.[1];
  if (payload === undefined) return sdp;
  const line = new RegExp(`a=fmtp:${payload} .*`);
  return sdp.replace(line, (found) => `${found};maxaveragebitrate=128000;usedtx=0\r\na=ptime:10`);
}

const BLOCK_SAMPLES = OUTPUT_RATE / 50;

interface SpeakerEvents {
  /** 20 ms at 24 kHz as played. Silence is included. */
  block: Samples;
}

interface SpeakerOptions {
  loopback: boolean;
  delayMs?: number | undefined;
}

/** Output of the model's voice: a player, its mixer channel, and the path to the loudspeaker. */
export class Speaker extends TypedEvents<SpeakerEvents> {
  readonly context: AudioContext;
  readonly player: Player;
  readonly channel: MixerChannel;
  loopbackProblem: string | undefined;
  #tap: AudioWorkletNode | undefined;
  #path: PeerLoopback | undefined;
  #paused = false;
  #closed = false;
  #deviceId: string | undefined;
  #adding: Promise<void> | undefined;

  /**
   * `loopback`: play through a peer connection for the echo canceller. If that fails, the audio
   * plays directly and `loopbackProblem` has the reason. `delayMs`: playback delay of the first
   * turn.
   */
  static async open({ loopback, delayMs }: SpeakerOptions): Promise<Speaker> {
    const speaker = new Speaker(outputContext(), delayLimitsFrom(delayMs));
    try {
      await startContext(speaker.context);
      await speaker.#openTap();
      await speaker.#openPath(loopback);
      return speaker;
    } catch (error) {
      await speaker.close();
      throw error;
    }
  }

  private constructor(context: AudioContext, delay: DelayLimits) {
    super();
    this.context = context;
    this.channel = new MixerChannel(context, OUTPUT_RATE);
    resumeWhenVisible(context, () => this.#paused);
    const pathMs = (): number => this.#path?.delayMs ?? 0;
    this.player = new Player(context, this.channel.node, pathMs, delay);
  }

  /** Whether playback goes through the peer connection. */
  get loopback(): boolean {
    return this.#path !== undefined;
  }

  /** Pauses playback. Scheduled audio plays after `resume`. */
  async pause(): Promise<void> {
    this.#paused = true;
    await this.context.suspend();
  }

  async resume(): Promise<void> {
    this.#paused = false;
    await this.context.resume();
  }

  /** Rejects if the browser cannot select a speaker, or if the device is gone. */
  async setSpeaker(deviceId: string): Promise<void> {
    if (this.#path) await this.#path.setSpeaker(deviceId);
    else if ("setSinkId" in this.context)
      await (this.context as { setSinkId(id: string): Promise<void> }).setSinkId(deviceId);
    else throw new DOMException("the browser cannot select a speaker", "NotSupportedError");
    this.#deviceId = deviceId;
  }

  /** Moves playback to a peer connection, for a microphone that needs it. Never rejects. */
  addLoopback(): Promise<void> {
    this.#adding ??= this.#addLoopback();
    return this.#adding;
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#tap) closeTap(this.#tap);
    this.#path?.close();
    await this.context.close();
  }

  async #openTap(): Promise<void> {
    const options = { channels: 1, rate: OUTPUT_RATE, blockSamples: BLOCK_SAMPLES };
    this.#tap = await openTap(this.context, options, ([block]) => this.#onBlock(block as Samples));
    this.channel.node.connect(this.#tap);
  }

  async #addLoopback(): Promise<void> {
    if (this.#path) return;
    const path = await this.#loopbackPath();
    if (this.#closed) path?.close();
    if (!path || this.#closed) return;
    // the default output is used if the speaker is gone
    if (this.#deviceId) await path.setSpeaker(this.#deviceId).catch(() => undefined);
    this.channel.node.disconnect(this.context.destination);
    this.channel.node.connect(path.input);
    this.#path = path;
  }

  async #loopbackPath(): Promise<PeerLoopback | undefined> {
    try {
      return await PeerLoopback.open(this.context);
    } catch (error) {
      this.loopbackProblem = String(error);
      return undefined;
    }
  }

  async #openPath(loopback: boolean): Promise<void> {
    if (loopback) this.#path = await this.#loopbackPath();
    this.channel.node.connect(this.#path?.input ?? this.context.destination);
    this.player.on("flush", () => this.#path?.silence());
  }

  #onBlock(block: Samples): void {
    this.channel.observe(block);
    this.emit("block", block);
  }
}

function outputContext(): AudioContext {
  const latencyHint = "interactive";
  try {
    return new AudioContext({ sampleRate: OUTPUT_RATE, latencyHint });
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "NotSupportedError")) throw error;
    return new AudioContext({ latencyHint });
  }
}
