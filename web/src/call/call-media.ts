import type { AudioEngine } from "../audio/audio-engine.ts";
import { StereoRecorder } from "../audio/stereo-recorder.ts";
import { type Camera, type CameraOptions, openCamera } from "../media/camera.ts";
import { Store } from "../state/store.ts";
import { RecordingKeeper } from "../storage/kept-recordings.ts";

interface CameraState {
  /** For the preview. Null if there is no video. */
  readonly stream: MediaStream | null;
  /** Whether this is the front camera. */
  readonly facesUser: boolean;
}

const DARK: CameraState = { stream: null, facesUser: true };

/** The camera of a call. Only one is open at a time. */
export class CallCamera {
  readonly state = new Store<CameraState>(DARK);
  #camera: Camera | null = null;
  #turn = 0;

  /** The video element, for the session and for recorders. */
  get videoElement(): HTMLVideoElement | undefined {
    return this.#camera?.element;
  }

  /**
   * Replaces the open camera, unless `close` or `open` is called before the new one is open. Rejects
   * with the browser's DOMException, and then shows no video.
   */
  async open(options: CameraOptions): Promise<void> {
    this.close(); // phones cannot open a second camera
    const turn = this.#turn;
    const camera = await openCamera(options);
    if (turn !== this.#turn) {
      camera.close();
      return;
    }
    this.#camera = camera;
    camera.onEnd(() => {
      if (camera === this.#camera) this.close();
    });
    this.state.set({ stream: camera.stream, facesUser: camera.mirrored });
  }

  close(): void {
    this.#turn += 1;
    this.#camera?.close();
    this.#camera = null;
    this.state.set(DARK);
  }
}

const FRAMES_PER_S = 15;
const TYPES = [
  "video/mp4;codecs=avc1.42E01F,mp4a.40.2",
  "video/webm;codecs=vp9,opus",
  "video/webm;codecs=vp8,opus",
  "video/webm",
];

interface VideoRecorderInput {
  /** The video element of the camera or file. Read for every frame. */
  videoElement: () => HTMLVideoElement | undefined;
  /** The node of the model's voice in `context`. */
  model: AudioNode;
  context: AudioContext;
  /** The user's audio. */
  user: MediaStream;
  /** Text below the video. Read for every frame. */
  caption: () => string;
  /** Receives the file's bytes as they are recorded. */
  onPart: (part: Blob) => void;
}

/** Records the video with both voices and the model's text as captions. */
export class VideoRecorder {
  readonly #input: VideoRecorderInput;
  readonly #canvas = document.createElement("canvas");
  readonly #sound: MediaStreamAudioDestinationNode;
  readonly #user: MediaStreamAudioSourceNode;
  readonly #recorder: MediaRecorder;
  readonly #parts: Blob[] = [];
  readonly #timer: ReturnType<typeof setInterval>;

  static get supported(): boolean {
    return (
      typeof MediaRecorder !== "undefined" && TYPES.some((t) => MediaRecorder.isTypeSupported(t))
    );
  }

  /** Starts recording. Throws if the browser cannot record. */
  constructor(input: VideoRecorderInput) {
    this.#input = input;
    this.#canvas.width = input.videoElement()?.videoWidth || 640;
    this.#canvas.height = input.videoElement()?.videoHeight || 480;
    this.#sound = input.context.createMediaStreamDestination();
    this.#user = input.context.createMediaStreamSource(input.user);
    this.#user.connect(this.#sound);
    input.model.connect(this.#sound);
    try {
      this.#recorder = this.#record();
    } catch (error) {
      this.#disconnect();
      throw error;
    }
    this.#timer = setInterval(() => this.#draw(), 1000 / FRAMES_PER_S);
  }

  get type(): string {
    return this.#recorder.mimeType.split(";")[0] || "video/webm";
  }

  /** Pauses the recording. */
  set paused(paused: boolean) {
    if (paused && this.#recorder.state === "recording") this.#recorder.pause();
    if (!paused && this.#recorder.state === "paused") this.#recorder.resume();
  }

  async stop(): Promise<Blob> {
    await this.#finish();
    clearInterval(this.#timer);
    this.#disconnect();
    return new Blob(this.#parts, { type: this.type });
  }

  #disconnect(): void {
    this.#user.disconnect();
    this.#input.model.disconnect(this.#sound);
  }

  /** The browser stops the recorder when all of its tracks end. */
  async #finish(): Promise<void> {
    if (this.#recorder.state === "inactive") return;
    const stopped = new Promise((resolve) => this.#recorder.addEventListener("stop", resolve));
    this.#recorder.stop();
    await stopped;
  }

  #record(): MediaRecorder {
    const videoElement = this.#canvas.captureStream(FRAMES_PER_S);
    const stream = new MediaStream([
      ...videoElement.getTracks(),
      ...this.#sound.stream.getTracks(),
    ]);
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
    const recorder = new MediaRecorder(stream, { ...(mimeType ? { mimeType } : {}) });
    recorder.ondataavailable = ({ data }) => {
      this.#parts.push(data);
      this.#input.onPart(data);
    };
    recorder.start(1000);
    return recorder;
  }

  #draw(): void {
    const pen = this.#canvas.getContext("2d");
    if (!pen) return;
    const { width, height } = this.#canvas;
    const videoElement = this.#input.videoElement();
    pen.fillStyle = "black";
    pen.fillRect(0, 0, width, height);
    if (videoElement) pen.drawImage(videoElement, ...within(videoElement, width, height));
    const caption = this.#input.caption();
    if (caption) drawCaption(pen, caption, width, height);
  }
}

/** Fits a video into a frame: left, top, width, height. */
function within(
  { videoWidth, videoHeight }: HTMLVideoElement,
  width: number,
  height: number,
): [number, number, number, number] {
  const scale = Math.min(width / (videoWidth || width), height / (videoHeight || height));
  const [w, h] = [(videoWidth || width) * scale, (videoHeight || height) * scale];
  return [(width - w) / 2, (height - h) / 2, w, h];
}

/** Draws the last words that fit into two lines on a dark band. */
function drawCaption(
  pen: CanvasRenderingContext2D,
  text: string,
  width: number,
  height: number,
): void {
  const size = Math.round(height / 20);
  pen.font = `${size}px system-ui, sans-serif`;
  const lines = lastLines(text, (line) => pen.measureText(line).width < width - 2 * size);
  pen.fillStyle = "rgb(0 0 0 / 60%)";
  pen.fillRect(0, height - size * (1.4 * lines.length + 0.8), width, height);
  pen.fillStyle = "white";
  pen.textAlign = "center";
  for (const [index, line] of lines.reverse().entries()) {
    pen.fillText(line, width / 2, height - size * (0.8 + 1.4 * index));
  }
}

function lastLines(text: string, fits: (line: string) => boolean): string[] {
  const lines = [""];
  for (const word of text.match(/\S+\s*|[\u3000-\u9fff]/gu) ?? []) {
    const line = lines.at(-1) + word;
    if (fits(line)) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  return lines.slice(-2);
}

/** Recordings made in this browser. */
export interface CallRecordings {
  /** Stereo WAV: user left, model right. */
  readonly audio: Blob | null;
  /** Video with both voices. */
  readonly video: Blob | null;
}

export const NO_CALL_RECORDINGS: CallRecordings = { audio: null, video: null };

interface CallRecorderOptions {
  /** The id of the session. */
  readonly conversation: string;
  readonly audio: boolean;
  readonly video: boolean;
  readonly videoElement: () => HTMLVideoElement | undefined;
  readonly caption: () => string;
  /** The browser cannot record the video. The value is its error. */
  readonly onFilmError: (error: unknown) => void;
}

/** Records a call in the browser, except during pauses. The browser keeps it until it is saved. */
export class CallRecorder {
  readonly #options: CallRecorderOptions;
  readonly #engine: AudioEngine;
  readonly #stereo = new StereoRecorder((part) => this.#kept("audio/wav").push(part));
  readonly #keepers = new Map<string, RecordingKeeper>();
  #video: VideoRecorder | null = null;
  #running = false;
  #films: boolean;

  constructor(engine: AudioEngine, options: CallRecorderOptions) {
    this.#engine = engine;
    this.#options = options;
    this.#films = options.video && VideoRecorder.supported;
    if (!options.audio) return;
    engine.on("userBlock", (block) => this.#running && this.#stereo.pushUser(block));
    engine.on("modelBlock", (block) => this.#running && this.#stereo.pushModel(block));
  }

  /** Starts or resumes recording. */
  start(): void {
    if (this.#running) return;
    this.#running = true;
    if (this.#video) this.#video.paused = false;
    else if (this.#films) this.#video = this.#film();
  }

  pause(): void {
    this.#running = false;
    if (this.#video) this.#video.paused = true;
  }

  /** Call it before the audio engine closes, or at the same time. */
  async finish(): Promise<CallRecordings> {
    this.#running = false;
    const video = (await this.#video?.stop()) ?? null;
    const audio = this.#stereo.seconds > 0 ? this.#stereo.blob() : null;
    for (const whole of [audio, video]) {
      if (whole) await this.#keepers.get(whole.type)?.finish(whole);
    }
    return { audio, video };
  }

  /** The page no longer offers the recordings of this call. */
  release(): void {
    for (const keeper of this.#keepers.values()) keeper.release();
  }

  #kept(type: string): RecordingKeeper {
    const keeper = this.#keepers.get(type) ?? new RecordingKeeper(type, this.#options.conversation);
    this.#keepers.set(type, keeper);
    return keeper;
  }

  /** Null if the browser refuses, for example because the microphone has another sample rate. */
  #film(): VideoRecorder | null {
    try {
      return this.#record();
    } catch (error) {
      this.#films = false;
      this.#options.onFilmError(error);
      return null;
    }
  }

  #record(): VideoRecorder {
    const { speaker, capture } = this.#engine;
    const video: VideoRecorder = new VideoRecorder({
      onPart: (part) => this.#kept(video.type).push(part),
      videoElement: this.#options.videoElement,
      caption: this.#options.caption,
      context: speaker.context,
      model: speaker.channel.node,
      user: capture.stream,
    });
    return video;
  }
}
