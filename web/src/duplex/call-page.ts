import { html, type TemplateResult } from "lit";
import { state } from "lit/decorators.js";
import { MediaFile } from "../audio/media-file.ts";
import { allowChimes } from "../components/chimes.ts";
import { deviceProblem } from "../components/device-problem.ts";
import { problemWords } from "../components/ending-words.ts";
import { common } from "../i18n/common.ts";
import { tellProblem } from "../shell/problem.ts";
import { Watch } from "../state/store.ts";
import { dialog } from "../ui/dialog.ts";
import { Element } from "../ui/element.ts";
import { icon } from "../ui/icon.ts";
import { clearToasts, toast } from "../ui/toasts.ts";
import { Call } from "./call.ts";
import { loadSuggestions } from "./call-presets.ts";
import { type CallKind, type CallSettings, callSettings } from "./call-settings.ts";
import { talkVerbs, verbForKey } from "./call-verbs.ts";
import { keyVerb } from "./keys.ts";
import { panel } from "./panel.ts";
import { stage } from "./stage.ts";
import { type CallVerbs, type CallView, isBusy, type PanelTab } from "./view.ts";
import { words } from "./words.ts";
import "./call-page.css";

/** A full-duplex call, by voice or by voice and camera. */
export abstract class CallPage extends Element {
  readonly #call: Call;
  readonly #settings: CallSettings;
  readonly #verbs: CallVerbs;

  @state() private tab: PanelTab = "settings";
  @state() private source: "microphone" | "file" = "microphone";
  @state() private file: File | null = null;
  /** The devices are being looked at; `ready`: all that a call needs is there. */
  @state() private checking: "no" | "asking" | "ready" = "no";

  constructor(kind: CallKind) {
    super();
    this.#call = new Call(kind);
    this.#settings = callSettings(kind);
    new Watch(this, this.#call.state);
    new Watch(this, this.#call.camera.state);
    new Watch(this, this.#settings);
    this.#verbs = { ...talkVerbs(this.#call, this.#settings), ...this.#pageVerbs() };
    this.#call.on("problem", (problem) => toast({ tone: "caution", ...problemWords(problem) }));
    this.#call.on("blind", tellBlind);
    this.#call.on("resumed", () => toast({ tone: "good", title: common().session.resumed }));
  }

  override connectedCallback(): void {
    super.connectedCallback();
    addEventListener("keydown", this.#onKey);
    loadSuggestions().catch((error: unknown) => tellProblem(error));
  }

  override disconnectedCallback(): void {
    removeEventListener("keydown", this.#onKey);
    this.#verbs.hangUp();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const view = this.#view;
    return html`<div class="call">${stage(view)} ${panel(view)}</div>
      ${this.#check()}`;
  }

  get #view(): CallView {
    const [call, settings] = [this.#call, this.#settings];
    const { tab, source, file } = this;
    const values = settings.value;
    return {
      call,
      state: call.state.value,
      settings,
      values,
      verbs: this.#verbs,
      tab,
      source,
      file,
    };
  }

  #pageVerbs(): Omit<CallVerbs, keyof ReturnType<typeof talkVerbs>> {
    return {
      start: () => this.#start(),
      check: () => this.#lookAtDevices(),
      hear: (from) => {
        this.source = from;
      },
      choose: (file) => {
        this.file = file;
      },
      open: (tab) => {
        this.tab = tab;
      },
    };
  }

  #start(): void {
    if (this.source === "microphone" && !this.#settings.value.checked) this.#lookAtDevices();
    else void this.#begin();
  }

  async #begin(): Promise<void> {
    if (isBusy(this.#call.state.value)) return;
    allowChimes();
    clearToasts();
    this.checking = "no";
    this.tab = "transcript";
    try {
      const file = this.source === "file" && this.file ? await MediaFile.open(this.file) : null;
      if (isBusy(this.#call.state.value)) file?.close();
      else await this.#call.start(this.#settings.value, file);
    } catch (error) {
      tellProblem(error);
    }
  }

  #lookAtDevices(): void {
    void import("../components/preflight.ts");
    this.checking = "asking";
  }

  #check(): TemplateResult {
    const say = words();
    const omni = this.#call.kind === "omni";
    return dialog({
      open: this.checking !== "no",
      title: say.checkTitle,
      body: html`<an-preflight
        ?camera=${omni}
        @ready=${() => {
          this.checking = "ready";
        }}
      ></an-preflight>`,
      footer: html`<button
        class="button primary"
        ?disabled=${this.checking !== "ready"}
        @click=${() => {
          this.#settings.update({ checked: true });
          void this.#begin();
        }}
      >
        ${icon("phone")} ${say.start}
      </button>`,
      onClose: () => {
        this.checking = "no";
      },
    });
  }

  readonly #onKey = (event: KeyboardEvent): void => {
    const key = this.#settings.value.keys ? keyVerb(event) : null;
    const run = key && verbForKey(this.#verbs, this.#call, key);
    if (!run) return;
    event.preventDefault();
    run();
  };
}

function tellBlind(error: unknown): void {
  const say = words();
  const remedy = `${deviceProblem(error, "camera")} ${say.noCamera}`;
  toast({ tone: "caution", title: say.cameraFailed, remedy });
}
