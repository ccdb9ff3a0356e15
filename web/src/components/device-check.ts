import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { AudioEngine } from "../audio/audio-engine.ts";
import { selectedDevices } from "../audio/audio-settings.ts";
import { SILENCE } from "../audio/mixer-channel.ts";
import { concatSamples, INPUT_RATE, OUTPUT_RATE, type Samples } from "../audio/pcm.ts";
import { common } from "../i18n/common.ts";
import { BaseElement } from "../ui/base-element.ts";
import { meter } from "../ui/controls.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { type Device, deviceErrorText } from "./device-select.ts";
import "./components.css";

/** How much playback returns through the microphone after echo cancellation. */
type Echo = "none" | "some" | "much";

const SWEEP_S = 0.8;
const FROM_HZ = 300;
const TO_HZ = 2800;
const REHEARSALS = 1; // lets the echo canceller adapt
const LISTEN_S = SWEEP_S + 0.7;
const FAINT = 10 ** (-55 / 20); // RMS, full scale 1: below anything that a model takes for speech

/** Plays a sound and records it through the same path as a call. Takes about three seconds. */
async function testEcho(audio: AudioEngine): Promise<Echo> {
  const played = sweep(OUTPUT_RATE);
  for (let i = 0; i < REHEARSALS; i += 1) await hear(audio, played);
  return rateEcho(halved(sweep(INPUT_RATE)), halved(await hear(audio, played)));
}

/** A rising tone with faded ends, distinct from other sounds in a room. */
export function sweep(rate: number): Samples {
  const samples = new Float32Array(Math.round(SWEEP_S * rate));
  for (let i = 0; i < samples.length; i += 1) {
    const t = i / rate;
    const slope = (TO_HZ - FROM_HZ) / (2 * SWEEP_S);
    const edge = Math.min(1, 20 * t, 20 * (SWEEP_S - t));
    samples[i] = 0.4 * edge * Math.sin(2 * Math.PI * (FROM_HZ + slope * t) * t);
  }
  return samples;
}

/** Both must have the same sample rate. */
export function rateEcho(played: Float32Array, recorded: Float32Array): Echo {
  const { likeness, rms } = match(played, recorded);
  if (rms < FAINT || likeness < 0.12) return "none";
  return likeness > 0.45 ? "much" : "some";
}

/**
 * Finds `played` in `recorded`. `likeness` is 1 for an exact copy and about 0 if it is absent. `rms`
 * is the level at that position.
 */
export function match(
  played: Float32Array,
  recorded: Float32Array,
): { likeness: number; rms: number } {
  const length = played.length;
  const energyPlayed = product(played, played, 0);
  let energyRecorded = product(recorded.subarray(0, length), recorded, 0);
  let best = { likeness: 0, rms: 0 };
  for (let lag = 0; lag + length <= recorded.length; lag += 1) {
    const likeness =
      Math.abs(product(played, recorded, lag)) / Math.sqrt(energyPlayed * energyRecorded || 1);
    if (likeness > best.likeness)
      best = { likeness, rms: Math.sqrt(Math.max(0, energyRecorded) / length) };
    energyRecorded += (recorded[lag + length] ?? 0) ** 2 - (recorded[lag] ?? 0) ** 2;
  }
  return best;
}

function product(one: Float32Array, other: Float32Array, lag: number): number {
  let sum = 0;
  for (let i = 0; i < one.length; i += 1) sum += (one[i] ?? 0) * (other[lag + i] ?? 0);
  return sum;
}

/**
 * Halves the sample rate. The sweep stays below the new limit, and the search is four times as
 * fast.
 */
function halved(samples: Float32Array): Samples {
  const half = new Float32Array(samples.length >> 1);
  for (let i = 0; i < half.length; i += 1) {
    half[i] = ((samples[2 * i] ?? 0) + (samples[2 * i + 1] ?? 0)) / 2;
  }
  return half;
}

async function hear(audio: AudioEngine, sound: Samples): Promise<Samples> {
  const blocks: Samples[] = [];
  const leave = audio.on("userBlock", (block) => blocks.push(block));
  audio.player.push(sound);
  audio.player.endTurn();
  await new Promise((resolve) => setTimeout(resolve, LISTEN_S * 1000));
  leave();
  return concatSamples(blocks);
}

const FLOOR_DB = -60;
const HOT_DB = -1;
const VOICE_LUFS = -45;

type Step = "waiting" | "good" | "bad";

/** `text` says what to do. */
interface Problem {
  readonly device: Device;
  readonly text: string;
}

/**
 * Device check before the first call: permission, device selection, level and echo. The selection
 * is stored in `audio/audio-settings.ts`. Removing the element closes the microphone.
 *
 * @fires ready - everything that a call needs is available
 */
@customElement("an-device-check")
export class DeviceCheck extends BaseElement {
  #audio: AudioEngine | null = null;
  /** Only the last attempt to open the microphone counts. */
  #attempt = 0;

  /** Also ask for the camera. */
  @property({ type: Boolean }) camera = false;

  @state() private problem: Problem | null = null;
  @state() private busy = false;
  /** Another device is opened. The checks stay, so that the list of devices keeps the focus. */
  @state() private reopens = false;
  @state() private peak = SILENCE.peak;
  @state() private voiceDetected = false;
  @state() private echo: Echo | "running" | null = null;

  override disconnectedCallback(): void {
    void this.#close();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    return html`<div class="stack loose">
      <ol role="list" class="steps">
        ${this.#secureStep()} ${this.camera ? this.#permissionStep("camera") : nothing}
        ${this.#permissionStep("microphone")}
      </ol>
      ${this.#isOpen ? this.#checks() : this.#allowButton()}
    </div>`;
  }

  get #isOpen(): boolean {
    return this.#audio !== null || this.reopens;
  }

  #secureStep(): TemplateResult {
    const { deviceCheck } = common();
    const secure = window.isSecureContext;
    return step(secure ? "good" : "bad", deviceCheck.secure, secure ? "" : deviceCheck.secureBad);
  }

  #permissionStep(device: Device): TemplateResult {
    const { deviceCheck } = common();
    const title = device === "camera" ? deviceCheck.camera : deviceCheck.permission;
    if (this.#isOpen) return step("good", title);
    if (this.problem?.device === device) return step("bad", title, this.problem.text);
    return step("waiting", title, device === "microphone" ? deviceCheck.permissionAsk : "");
  }

  #allowButton(): TemplateResult {
    const { deviceCheck, retry } = common();
    const label = this.camera ? deviceCheck.allowBoth : deviceCheck.allow;
    return html`<div>
      <button
        class="button primary"
        ${inactive(this.busy || !window.isSecureContext)}
        @click=${() => this.#open()}
      >
        ${icon("mic")} ${this.problem ? retry : label}
      </button>
    </div>`;
  }

  #checks(): TemplateResult {
    return html`${this.#level()} ${this.#echoTest()} ${this.#devices()}`;
  }

  #level(): TemplateResult {
    const { deviceCheck } = common();
    const hot = this.peak > HOT_DB;
    const text = hot
      ? deviceCheck.levelHot
      : this.voiceDetected
        ? deviceCheck.levelGood
        : deviceCheck.levelQuiet;
    return html`<section class="stack tight">
      <h3>${deviceCheck.level}</h3>
      ${meter(deviceCheck.level, 1 - Math.max(FLOOR_DB, this.peak) / FLOOR_DB, hot)}
      <p class="small soft" role="status">${text}</p>
    </section>`;
  }

  #echoTest(): TemplateResult {
    const { deviceCheck } = common();
    const running = this.echo === "running";
    return html`<section class="stack tight">
      <h3>${deviceCheck.echo}</h3>
      <p class="small soft" role="status">${this.#echoText()}</p>
      <div>
        <button class="button" ${inactive(running)} @click=${() => this.#testEcho()}>
          ${running ? html`<span class="spinner"></span>` : icon("speaker")}
          ${this.echo === null || running ? deviceCheck.echoTest : deviceCheck.echoAgain}
        </button>
      </div>
    </section>`;
  }

  #echoText(): string {
    const { deviceCheck } = common();
    const text = {
      running: deviceCheck.echoRunning,
      none: deviceCheck.echoNone,
      some: deviceCheck.echoSome,
      much: deviceCheck.echoMuch,
    };
    return this.echo === null ? deviceCheck.echoIntro : text[this.echo];
  }

  #devices(): TemplateResult {
    return html`<an-device-select plain ?camera=${this.camera} @change=${this.#onDevice}></an-device-select>`;
  }

  async #onDevice({ detail }: CustomEvent<string>): Promise<void> {
    if (detail === "camera") return;
    this.echo = null;
    await this.#open();
  }

  async #open(): Promise<void> {
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.busy = true;
    this.reopens ||= this.#audio !== null;
    this.problem = null;
    let device: Device = this.camera ? "camera" : "microphone";
    try {
      await this.#close();
      if (this.camera) await askForCamera();
      device = "microphone";
      const audio = await AudioEngine.open(selectedDevices());
      if (!this.isConnected || attempt !== this.#attempt) {
        await audio.close();
        return;
      }
      this.#attach(audio);
      this.emit("ready", null);
    } catch (error) {
      if (attempt !== this.#attempt) return;
      this.problem = { device, text: deviceErrorText(error, device) };
    } finally {
      if (attempt === this.#attempt) this.busy = this.reopens = false;
    }
  }

  #attach(audio: AudioEngine): void {
    this.#audio = audio;
    audio.on("levels", ({ user }) => {
      this.peak = user.peak;
      this.voiceDetected ||= user.momentary > VOICE_LUFS;
    });
    this.requestUpdate();
  }

  async #close(): Promise<void> {
    const audio = this.#audio;
    this.#audio = null;
    await audio?.close();
  }

  async #testEcho(): Promise<void> {
    const audio = this.#audio;
    if (audio === null) return;
    this.echo = "running";
    const echo = await testEcho(audio);
    if (audio === this.#audio) this.echo = echo; // the microphone may have changed
  }
}

/** Asks for permission only. Rejects with the browser's DOMException. */
async function askForCamera(): Promise<void> {
  const stream = await navigator.mediaDevices.getUserMedia({ video: true });
  for (const track of stream.getTracks()) track.stop();
}

const STEP_ICONS: Record<Step, IconName> = { waiting: "clock", good: "check", bad: "alert" };

function step(state: Step, title: string, text = ""): TemplateResult {
  return html`<li class=${state}>
    ${icon(STEP_ICONS[state])}
    <div>
      <p class="strong">${title}</p>
      ${text === "" ? nothing : html`<p class="small soft">${text}</p>`}
    </div>
  </li>`;
}
