import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { MediaFile } from "../audio/capture.ts";
import { allowChimes } from "../audio/chimes.ts";
import { deviceErrorText } from "../components/device-select.ts";
import { problemText } from "../components/session-status.ts";
import { common } from "../i18n/common.ts";
import { capabilities } from "../shell/capabilities.ts";
import { showError } from "../shell/errors.ts";
import { address, menu } from "../shell/header.ts";
import { mount } from "../shell/shell.ts";
import { StoreController } from "../state/store.ts";
import { hasDatabase } from "../storage/database.ts";
import { BaseElement, LeaveGuard } from "../ui/base-element.ts";
import { isComposing } from "../ui/composition.ts";
import { clearToasts, toast } from "../ui/toasts.ts";
import { aboutAntiphon } from "./about.ts";
import {
  actionForKey,
  type CallActions,
  type CallView,
  type DeveloperTab,
  isBusy,
  keyAction,
  type Panel,
  sessionActions,
} from "./call-actions.ts";
import { CallController, type CallInput } from "./call-controller.ts";
import {
  type CallSettings,
  callSettings,
  loadFrontendDefaults,
  readyToCall,
} from "./call-settings.ts";
import {
  ActivityWatch,
  kindOf,
  leaveDisplay,
  toggleVideoWindow,
  usesSmallWindow,
} from "./controls.ts";
import type { OpeningName } from "./opening-texts.ts";
import { callPanel } from "./panel.ts";
import { SmallWindow } from "./small-window.ts";
import { callStage, smallStage } from "./stage.ts";
import { callStrings } from "./strings.ts";
import "./call-page.css";

const DISPLAY_EVENTS = ["fullscreenchange", "enterpictureinpicture", "leavepictureinpicture"];
const SHOWN_FOCUS = ".stage :is(.tools, .bottom) :focus-visible";
const REDUCED_MOTION = matchMedia("(prefers-reduced-motion: reduce)");

/** The start page and both call pages: a full-duplex voice or video call. */
@customElement("an-call-page")
export class CallPage extends BaseElement {
  readonly #call = new CallController();
  readonly #settingsOf = { audio: callSettings("audio"), omni: callSettings("omni") };
  readonly #actions: CallActions;
  readonly #activity = new ActivityWatch(this);
  readonly #small = new SmallWindow(this);
  #wasBusy = false;

  @state() private panel: Panel | null = null;
  @state() private tab: DeveloperTab = "metrics";
  @state() private source: "microphone" | "file" = "microphone";
  @state() private file: File | null = null;
  @state() private checking = false;

  constructor() {
    super();
    const { audio, omni } = this.#settingsOf;
    const { state, camera } = this.#call;
    new StoreController(this, state);
    new StoreController(this, camera.state);
    new StoreController(this, audio);
    new StoreController(this, omni);
    new StoreController(this, capabilities);
    new StoreController(this, menu);
    new StoreController(this, address);
    new StoreController(this, hasDatabase);
    omni.subscribe(({ slices }) => this.#call.session?.setMaxSliceNums(slices));
    new LeaveGuard(this, () => isBusy(this.#call.state.value));
    this.#actions = {
      ...sessionActions(this.#call, () => this.#settings),
      ...this.#pageActions(),
    };
    this.#call.on("problem", (problem) => toast({ tone: "caution", ...problemText(problem) }));
    this.#call.on("cameraError", showCameraError);
    this.#call.on("filmError", showFilmError);
    this.#call.on("resumed", () => toast({ tone: "good", title: common().session.resumed }));
  }

  override connectedCallback(): void {
    super.connectedCallback();
    addEventListener("keydown", this.#onKey);
    for (const name of DISPLAY_EVENTS) document.addEventListener(name, this.#onDisplay, true);
    loadFrontendDefaults().catch((error: unknown) => showError(error));
  }

  override disconnectedCallback(): void {
    removeEventListener("keydown", this.#onKey);
    for (const name of DISPLAY_EVENTS) document.removeEventListener(name, this.#onDisplay, true);
    this.#actions.endCall();
    super.disconnectedCallback();
  }

  protected override willUpdate(): void {
    if (!isBusy(this.#call.state.value)) this.#call.setKind(kindOf(address.value));
    const { phase } = this.#call.state.value.sessionState;
    if (phase === "ended" && this.panel === "transcript") this.panel = null; // it is on the stage
  }

  protected override render(): TemplateResult {
    const view = this.#view;
    const busy = isBusy(view.state);
    return html`<div class="call ${busy ? "live" : ""}">${callStage(view)} ${callPanel(view)}</div>
      ${busy ? nothing : aboutAntiphon()}`;
  }

  protected override updated(changed: PropertyValues): void {
    const busy = isBusy(this.#call.state.value);
    const begins = busy && !this.#wasBusy;
    if (this.#wasBusy && !busy) {
      leaveDisplay();
      this.#small.close();
    }
    this.#wasBusy = busy;
    // After a reload the page has another layout, in which the browser would scroll to the stage.
    if (busy) history.scrollRestoration = "manual";
    this.#small.show(() => smallStage(this.#view));
    if (changed.has("panel")) this.#focusPanel(changed.get("panel") as Panel | null, begins);
  }

  /** Focuses the panel that opens, or the button of the one that closes, but not if a call begins. */
  #focusPanel(before: Panel | null, begins: boolean): void {
    const { activeElement, body } = document;
    const isInPanel = activeElement === body || activeElement?.closest(".call-panel");
    const opened = this.querySelector<HTMLElement>(".call-panel:not([hidden])");
    const button = this.querySelector<HTMLElement>(`[data-panel="${before}"]`);
    if (opened !== null) opened.focus();
    else if (isInPanel && !begins) button?.focus();
  }

  get #settings(): CallSettings {
    return this.#settingsOf[this.#call.kind];
  }

  get #view(): CallView {
    const [call, settings, actions] = [this.#call, this.#settings, this.#actions];
    const { panel, tab, source, file, checking } = this;
    const [state, values] = [call.state.value, settings.value];
    const [faded, away] = [this.#fades, this.#small.isOpen];
    const shown = { panel, tab, source, file, faded, away, checking };
    return { call, state, settings, values, actions, ...shown };
  }

  /**
   * The controls fade in a call that nobody touches. They stay with the keyboard's focus, an open
   * panel or a pause, and for users who prefer reduced motion.
   */
  get #fades(): boolean {
    const { phase, muted } = this.#call.state.value.sessionState;
    if (phase !== "active" || muted || this.panel !== null || REDUCED_MOTION.matches) return false;
    return this.#activity.rests && this.querySelector(SHOWN_FOCUS) === null;
  }

  #pageActions(): Omit<CallActions, keyof ReturnType<typeof sessionActions>> {
    return {
      start: (opening) => void this.#start(opening ?? null),
      check: (open) => {
        if (open) void import("../components/device-check.ts");
        this.checking = open;
      },
      selectSource: (from) => {
        this.source = from;
      },
      selectFile: (file) => {
        this.file = file;
      },
      show: (panel) => {
        this.panel = panel;
      },
      selectTab: (tab) => {
        this.tab = tab;
      },
      pictureInPicture: () => void this.#pictureInPicture().catch((error) => showError(error)),
    };
  }

  async #start(opening: OpeningName | null): Promise<void> {
    if (isBusy(this.#call.state.value)) return;
    allowChimes();
    clearToasts();
    this.checking = false; // closes its microphone
    if (this.panel === "settings") this.panel = null;
    try {
      await this.#call.start(() => this.#input(opening));
    } catch (error) {
      showError(error);
    }
  }

  async #pictureInPicture(): Promise<void> {
    if (this.#small.isOpen) this.#small.close();
    else if (usesSmallWindow(this.#view)) await this.#small.open();
    else await toggleVideoWindow();
  }

  async #input(opening: OpeningName | null): Promise<CallInput> {
    await readyToCall(this.#call.kind, this.#settings);
    const values = this.#settings.value;
    if (opening) {
      const { openingTexts } = await import("./opening-texts.ts");
      return { values: { ...values, ...openingTexts(opening) }, file: null };
    }
    const file = this.source === "file" && this.file ? await MediaFile.open(this.file) : null;
    return { values, file };
  }

  readonly #onDisplay = (): void => this.requestUpdate();

  readonly #onKey = (event: KeyboardEvent): void => {
    if (isComposing(event)) return;
    if (event.key === "Escape" && !event.defaultPrevented && !inDialog(event)) this.panel = null;
    const key = this.#settings.value.keys ? keyAction(event) : null;
    const run = key && actionForKey(this.#actions, this.#call, key);
    if (!run) return;
    event.preventDefault();
    run();
  };
}

/** A dialog uses the key itself. */
function inDialog({ target }: Event): boolean {
  return target instanceof Element && target.closest("dialog") !== null;
}

function showCameraError(error: unknown): void {
  const t = callStrings();
  const remedy = `${deviceErrorText(error, "camera")} ${t.noCamera}`;
  toast({ tone: "caution", title: t.cameraFailed, remedy });
}

function showFilmError(): void {
  const t = callStrings();
  toast({ tone: "caution", title: t.filmFailed, remedy: t.filmFailedHint });
}

mount({
  help: async () => (await import("../pages/help.ts")).pageHelp,
  title: () => (address.value === "/" ? "" : callStrings().title[kindOf(address.value)]),
  description: () =>
    callStrings().description[address.value === "/" ? "start" : kindOf(address.value)],
  content: () => html`<an-call-page></an-call-page>`,
});
