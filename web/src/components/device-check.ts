import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { AudioEngine } from "../audio/audio-engine.ts";
import { SILENCE } from "../audio/loudness.ts";
import { common } from "../i18n/common.ts";
import { BaseElement } from "../ui/base-element.ts";
import { meter } from "../ui/controls.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { type Device, deviceErrorText } from "./device-select.ts";
import "./device-select.ts";
import { selectedDevices } from "../audio/devices.ts";
import { type Echo, testEcho } from "./echo-test.ts";
import "./device-check.css";

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
 * is stored in `settings/devices.ts`. Removing the element closes the microphone.
 *
 * @fires ready - everything that a call needs is available
 */
@customElement("an-device-check")
export class DeviceCheck extends BaseElement {
  #audio: AudioEngine | null = null;

  /** Also ask for the camera. */
  @property({ type: Boolean }) camera = false;

  @state() private problem: Problem | null = null;
  @state() private busy = false;
  @state() private peak = SILENCE.peak;
  @state() private voiceDetected = false;
  @state() private echo: Echo | "running" | null = null;

  override disconnectedCallback(): void {
    void this.#close();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const open = this.#audio !== null;
    return html`<div class="stack loose">
      <ol role="list" class="steps">
        ${this.#secureStep()} ${this.camera ? this.#permissionStep("camera") : nothing}
        ${this.#permissionStep("microphone")}
      </ol>
      ${open ? this.#checks() : this.#allowButton()}
    </div>`;
  }

  #secureStep(): TemplateResult {
    const { deviceCheck } = common();
    const secure = window.isSecureContext;
    return step(secure ? "good" : "bad", deviceCheck.secure, secure ? "" : deviceCheck.secureBad);
  }

  #permissionStep(device: Device): TemplateResult {
    const { deviceCheck } = common();
    const title = device === "camera" ? deviceCheck.camera : deviceCheck.permission;
    if (this.#audio) return step("good", title);
    if (this.problem?.device === device) return step("bad", title, this.problem.text);
    return step("waiting", title, device === "microphone" ? deviceCheck.permissionAsk : "");
  }

  #allowButton(): TemplateResult {
    const { deviceCheck, retry } = common();
    const label = this.camera ? deviceCheck.allowBoth : deviceCheck.allow;
    return html`<div>
      <button
        class="button primary"
        ?disabled=${this.busy || !window.isSecureContext}
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
        <button class="button" ?disabled=${running} @click=${() => this.#testEcho()}>
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
    this.busy = true;
    this.problem = null;
    let device: Device = this.camera ? "camera" : "microphone";
    try {
      await this.#close();
      if (this.camera) await askForCamera();
      device = "microphone";
      this.#attach(await AudioEngine.open(selectedDevices()));
      this.emit("ready", null);
    } catch (error) {
      this.problem = { device, text: deviceErrorText(error, device) };
    } finally {
      this.busy = false;
    }
  }

  #attach(audio: AudioEngine): void {
    if (!this.isConnected) {
      void audio.close();
      return;
    }
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
    this.echo = await testEcho(audio);
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
