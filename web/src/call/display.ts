import { html, type TemplateResult } from "lit";
import { type IconName, icon } from "../ui/icon.ts";
import { type CallView, isBusy } from "./call-view.ts";
import { callStrings } from "./strings.ts";
import { showsVideo } from "./video-preview.ts";

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
