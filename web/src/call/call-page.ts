import { html, type TemplateResult } from "lit";
import { state } from "lit/decorators.js";
import { MediaFile } from "../audio/media-file.ts";
import { allowChimes } from "../components/chimes.ts";
import { deviceErrorText } from "../components/device-error.ts";
import { problemText } from "../components/session-end.ts";
import { common } from "../i18n/common.ts";
import { capabilities } from "../shell/capabilities.ts";
import { showError } from "../shell/errors.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { dialog } from "../ui/dialog.ts";
import { icon } from "../ui/icon.ts";
import { LeaveGuard } from "../ui/leave-guard.ts";
import { clearToasts, toast } from "../ui/toasts.ts";
import { actionForKey, sessionActions } from "./call-actions.ts";
import { CallController } from "./call-controller.ts";
import { loadFrontendDefaults } from "./call-presets.ts";
import { type CallKind, type CallSettings, callSettings } from "./call-settings.ts";
import { type CallActions, type CallView, isBusy, type PanelTab } from "./call-view.ts";
import { keyAction } from "./keyboard.ts";
import { callPanel } from "./panel.ts";
import { callStage } from "./stage.ts";
import { callStrings } from "./strings.ts";
import "./call-page.css";

/** A full-duplex voice or video call. */
export abstract class CallPage extends BaseElement {
  readonly #call: CallController;
  readonly #settings: CallSettings;
  readonly #actions: CallActions;

  @state() private tab: PanelTab = "settings";
  @state() private source: "microphone" | "file" = "microphone";
  @state() private file: File | null = null;
  /** State of the device check. `ready`: everything that a call needs is available. */
  @state() private checking: "no" | "asking" | "ready" = "no";

  constructor(kind: CallKind) {
    super();
    this.#call = new CallController(kind);
    this.#settings = callSettings(kind);
    new StoreController(this, this.#call.state);
    new StoreController(this, this.#call.camera.state);
    new StoreController(this, this.#settings);
    new StoreController(this, capabilities);
    new LeaveGuard(this, () => isBusy(this.#call.state.value));
    this.#actions = { ...sessionActions(this.#call, this.#settings), ...this.#pageActions() };
    this.#call.on("problem", (problem) => toast({ tone: "caution", ...problemText(problem) }));
    this.#call.on("cameraError", showCameraError);
    this.#call.on("resumed", () => toast({ tone: "good", title: common().session.resumed }));
  }

  override connectedCallback(): void {
    super.connectedCallback();
    addEventListener("keydown", this.#onKey);
    loadFrontendDefaults().catch((error: unknown) => showError(error));
  }

  override disconnectedCallback(): void {
    removeEventListener("keydown", this.#onKey);
    this.#actions.endCall();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const view = this.#view;
    return html`<div class="call">${callStage(view)} ${callPanel(view)}</div>
      ${this.#deviceCheck()}`;
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
      actions: this.#actions,
      tab,
      source,
      file,
    };
  }

  #pageActions(): Omit<CallActions, keyof ReturnType<typeof sessionActions>> {
    return {
      start: () => this.#start(),
      check: () => this.#checkDevices(),
      selectSource: (from) => {
        this.source = from;
      },
      selectFile: (file) => {
        this.file = file;
      },
      open: (tab) => {
        this.tab = tab;
      },
    };
  }

  #start(): void {
    if (this.source === "microphone" && !this.#settings.value.checked) this.#checkDevices();
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
      showError(error);
    }
  }

  #checkDevices(): void {
    void import("../components/device-check.ts");
    this.checking = "asking";
  }

  #deviceCheck(): TemplateResult {
    const t = callStrings();
    const omni = this.#call.kind === "omni";
    return dialog({
      open: this.checking !== "no",
      title: t.checkTitle,
      body: html`<an-device-check
        ?camera=${omni}
        @ready=${() => {
          this.checking = "ready";
        }}
      ></an-device-check>`,
      footer: html`<button
        class="button primary"
        ?disabled=${this.checking !== "ready"}
        @click=${() => {
          this.#settings.update({ checked: true });
          void this.#begin();
        }}
      >
        ${icon("phone")} ${t.start}
      </button>`,
      onClose: () => {
        this.checking = "no";
      },
    });
  }

  readonly #onKey = (event: KeyboardEvent): void => {
    const key = this.#settings.value.keys ? keyAction(event) : null;
    const run = key && actionForKey(this.#actions, this.#call, key);
    if (!run) return;
    event.preventDefault();
    run();
  };
}

function showCameraError(error: unknown): void {
  const t = callStrings();
  const remedy = `${deviceErrorText(error, "camera")} ${t.noCamera}`;
  toast({ tone: "caution", title: t.cameraFailed, remedy });
}
