import {
  html,
  nothing,
  type ReactiveController,
  type ReactiveControllerHost,
  type TemplateResult,
} from "lit";
import type { PageInfo } from "../api/answers.ts";
import { siteUrl } from "../api/site.ts";
import { type BarControl, controlBar } from "../components/control-bar.ts";
import { menu, moveTo, pageIcon } from "../shell/header.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { type CallView, isBusy, keyName } from "./call-actions.ts";
import type { CallKind } from "./call-settings.ts";
import { SmallWindow } from "./small-window.ts";
import { callStrings } from "./strings.ts";
import "./call-page.css";

/** Controls of an active or starting call. */
export function callControls(view: CallView): TemplateResult {
  const { phase } = view.state.sessionState;
  const usable = phase === "active" || phase === "paused";
  const others = [...cameraControls(view), ...audioControls(view)];
  // All controls are there from the start, so that End does not move under the pointer.
  return controlBar(callStrings().controls, [
    ...others.map((one) => ({ ...one, disabled: !usable || (one.disabled ?? false) })),
    endControl(view),
  ]);
}

function audioControls({ state: { sessionState }, actions }: CallView): BarControl[] {
  const t = callStrings();
  const paused = sessionState.phase === "paused";
  return [
    {
      iconName: sessionState.muted ? "micOff" : "mic",
      label: t.mute,
      tone: "mute",
      pressed: sessionState.muted,
      keys: keyName("mute"),
      run: actions.mute,
    },
    {
      iconName: "hand",
      label: t.interrupt,
      hint: t.interruptHint,
      disabled: paused,
      keys: keyName("listen"),
      run: actions.interrupt,
    },
    {
      iconName: paused ? "play" : "pause",
      label: paused ? t.resume : t.pause,
      ...(paused ? { tone: "go" as const } : {}),
      keys: keyName("pause"),
      run: actions.pause,
    },
  ];
}

/** Only if the video is from the camera. */
function cameraControls({ call, state, actions }: CallView): BarControl[] {
  const t = callStrings();
  if (call.kind === "audio" || state.file?.hasVideo) return [];
  const on = call.camera.state.value.stream !== null;
  return [
    {
      iconName: on ? "camera" : "cameraOff",
      label: t.camera,
      shown: t.cameraShown,
      hint: t.cameraHint,
      pressed: !on,
      keys: keyName("camera"),
      run: actions.camera,
    },
    { iconName: "flip", label: t.flip, disabled: !on, run: actions.switchCamera },
  ];
}

function endControl({ state, actions }: CallView): BarControl {
  const disabled = state.sessionState.phase === "stopping";
  return {
    iconName: "phone",
    label: callStrings().end,
    tone: "end",
    keys: keyName("end"),
    disabled,
    run: actions.endCall,
  };
}

/** Controls before a call. */
export function startControls(view: CallView): TemplateResult {
  const t = callStrings();
  const { call, source, file, state, actions } = view;
  const again = state.since !== null;
  const label = source === "file" ? t.startFile : again ? t.again : t.start;
  const usable = isEnabled(call.kind) && (source === "microphone" || file !== null);
  return html`<div class="start">
    <button class="button primary large" ${inactive(!usable)} @click=${() => actions.start()}>
      ${icon(source === "file" ? "play" : "phone")} ${label}
    </button>
    ${modeSwitch(view)}
    ${call.kind === "omni" && source === "microphone" && state.sessionState.phase !== "ended" ? previewButton(call.camera.state.value.stream !== null, actions.camera) : nothing}
  </div>`;
}

function previewButton(shown: boolean, toggle: () => void): TemplateResult {
  const t = callStrings();
  return html`<button class="button quiet small" @click=${toggle}>
    ${shown ? t.hidePreview : t.showPreview}
  </button>`;
}

const CALLS = ["audio_duplex", "omni"];

/** The kind of call at a path. The home page has voice calls, unless only video calls are enabled. */
export function kindOf(path: string): CallKind {
  const enabled = menu.value.map(({ app_id }) => app_id);
  const videoOnly = enabled.includes("omni") && !enabled.includes("audio_duplex");
  return path === "/omni" || (path === "/" && videoOnly) ? "omni" : "audio";
}

/** Whether calls of this kind are enabled. */
export function isEnabled(kind: CallKind): boolean {
  return menu.value.some(({ app_id }) => app_id === appOf(kind));
}

/** A voice or a video call. The menu in the header leads to the other pages. */
function modeSwitch({ call }: CallView): TemplateResult | typeof nothing {
  const modes = menu.value.filter(({ app_id }) => CALLS.includes(app_id));
  if (modes.length < CALLS.length) return nothing;
  return html`<nav class="mode-switch segmented" aria-label=${callStrings().mode}>
    ${modes.map((app) => mode(app, app.app_id === appOf(call.kind)))}
  </nav>`;
}

function mode(app: PageInfo, chosen: boolean): TemplateResult {
  const names: Readonly<Record<string, string>> = callStrings().modes;
  return html`<a
    href=${siteUrl(app.route)}
    aria-current=${chosen ? "true" : nothing}
    @click=${(event: MouseEvent) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      if (!chosen) moveTo(app.route);
    }}
    >${icon(pageIcon(app))}${names[app.app_id]}</a
  >`;
}

function appOf(kind: CallKind): string {
  return kind === "omni" ? "omni" : "audio_duplex";
}

/** Full screen and picture-in-picture, where the browser has them. In a call only. */
export function displayButtons(view: CallView): TemplateResult[] {
  if (!isBusy(view.state)) return [];
  const t = callStrings();
  const buttons: TemplateResult[] = [];
  if (usesSmallWindow(view) || (document.pictureInPictureEnabled && showsVideo(view))) {
    const on = view.away || document.pictureInPictureElement !== null;
    buttons.push(button("pip", t.pictureInPicture, on, view.actions.pictureInPicture));
  }
  if (document.fullscreenEnabled) {
    const on = document.fullscreenElement !== null;
    buttons.push(button("expand", t.fullScreen, on, toggleFullScreen));
  }
  return buttons;
}

/** Leaves both, at the end of a call. */
export function leaveDisplay(): void {
  if (document.fullscreenElement) ignoringRefusal(document.exitFullscreen());
  if (document.pictureInPictureElement) ignoringRefusal(document.exitPictureInPicture());
}

function toggleFullScreen(): void {
  const on = document.fullscreenElement !== null;
  // The whole document, because toasts and dialogs are outside of the stage.
  ignoringRefusal(on ? document.exitFullscreen() : document.documentElement.requestFullscreen());
}

/**
 * Whether picture-in-picture has the call with its captions and controls. The video of a file would
 * stop if it moved to another window.
 */
export function usesSmallWindow({ state }: CallView): boolean {
  return SmallWindow.supported && !state.file?.hasVideo;
}

/** Picture-in-picture of the video alone. Rejects with the browser's DOMException. */
export async function toggleVideoWindow(): Promise<void> {
  const video = document.querySelector<HTMLVideoElement>(".video-preview video");
  if (document.pictureInPictureElement !== null) await document.exitPictureInPicture();
  else await video?.requestPictureInPicture();
}

/** The browser or its user may refuse. Then nothing changes. */
function ignoringRefusal(work: Promise<unknown>): void {
  work.catch(() => undefined);
}

function button(name: IconName, label: string, on: boolean, run: () => void): TemplateResult {
  return html`<button
    class="button quiet square"
    title=${label}
    aria-label=${label}
    aria-pressed=${on}
    @click=${run}
  >
    ${icon(name)}<span class="name">${label}</span>
  </button>`;
}

/** Whether there is video to show. */
export function showsVideo({ call, state }: CallView): boolean {
  if (state.sessionState.phase === "ended") return false;
  return state.file?.hasVideo === true || call.camera.state.value.stream !== null;
}

const EVENTS = ["pointermove", "pointerdown", "wheel", "keydown", "focusin"] as const;
const RESTS_AFTER_MS = 4000;

/** Whether the user has touched nothing for some seconds: no pointer, no key, no focus. */
export class ActivityWatch implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #rests = false;

  constructor(host: ReactiveControllerHost) {
    this.#host = host;
    host.addController(this);
  }

  get rests(): boolean {
    return this.#rests;
  }

  hostConnected(): void {
    for (const name of EVENTS) addEventListener(name, this.#wake, { passive: true });
    this.#wake();
  }

  hostDisconnected(): void {
    for (const name of EVENTS) removeEventListener(name, this.#wake);
    clearTimeout(this.#timer);
  }

  readonly #wake = (): void => {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#set(true), RESTS_AFTER_MS);
    this.#set(false);
  };

  #set(rests: boolean): void {
    if (rests === this.#rests) return;
    this.#rests = rests;
    this.#host.requestUpdate();
  }
}
