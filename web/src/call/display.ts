import {
  html,
  type ReactiveController,
  type ReactiveControllerHost,
  type TemplateResult,
} from "lit";
import { type IconName, icon } from "../ui/icon.ts";
import { type CallView, isBusy } from "./call-actions.ts";
import { callStrings } from "./strings.ts";

/** Full screen and picture-in-picture, where the browser has them. In a call only. */
export function displayButtons(view: CallView): TemplateResult[] {
  if (!isBusy(view.state)) return [];
  const t = callStrings();
  const buttons: TemplateResult[] = [];
  if (document.pictureInPictureEnabled && showsVideo(view)) {
    const on = document.pictureInPictureElement !== null;
    buttons.push(button("pip", t.pictureInPicture, on, togglePictureInPicture));
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

function togglePictureInPicture(): void {
  const on = document.pictureInPictureElement !== null;
  const video = document.querySelector<HTMLVideoElement>(".video-preview video");
  if (on) ignoringRefusal(document.exitPictureInPicture());
  else if (video) ignoringRefusal(video.requestPictureInPicture());
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
    ${icon(name)}
  </button>`;
}

/** Whether there is video to show. */
export function showsVideo({ call, state }: CallView): boolean {
  if (state.sessionState.phase === "ended") return false;
  return state.file?.hasVideo === true || call.camera.state.value.stream !== null;
}

/** The video that the model receives. The front camera is mirrored if the user wants this. */
export function videoPreview({ call, state, values }: CallView): TemplateResult {
  const label = callStrings().sentVideo;
  if (state.file?.hasVideo) {
    setAspectRatio(state.file.element);
    return html`<div class="video-preview">${state.file.element}</div>`;
  }
  const { stream, facesUser } = call.camera.state.value;
  return html`<div class="video-preview ${facesUser && values.mirror ? "mirrored" : ""}">
    <video
      autoplay
      playsinline
      .muted=${true}
      .srcObject=${stream}
      aria-label=${label}
      @resize=${({ currentTarget }: Event) => setAspectRatio(currentTarget as HTMLVideoElement)}
    ></video>
  </div>`;
}

/** Sets the aspect ratio of the frame. It changes when a phone rotates. */
function setAspectRatio(video: HTMLVideoElement): void {
  if (video.videoHeight === 0) return; // no video any more
  video.style.setProperty("--ratio", String(video.videoWidth / video.videoHeight));
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
