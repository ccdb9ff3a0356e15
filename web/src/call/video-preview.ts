import { html, type TemplateResult } from "lit";
import type { CallView } from "./call-view.ts";
import { callStrings } from "./strings.ts";

/** Whether there is anything to see. */
export function showsVideo({ call, state }: CallView): boolean {
  if (state.sessionState.phase === "ended") return false;
  return state.file?.hasVideo === true || call.camera.state.value.stream !== null;
}

/** What the model is shown; a front camera's picture like a mirror, if that is wanted. */
export function videoElement({ call, state, values }: CallView): TemplateResult {
  const label = callStrings().pictureOfYou;
  if (state.file?.hasVideo) {
    takeShape(state.file.element);
    return html`<div class="picture">${state.file.element}</div>`;
  }
  const { stream, facesUser } = call.camera.state.value;
  return html`<div class="picture ${facesUser && values.mirror ? "mirrored" : ""}">
    <video
      autoplay
      playsinline
      .muted=${true}
      .srcObject=${stream}
      aria-label=${label}
      @resize=${({ currentTarget }: Event) => takeShape(currentTarget as HTMLVideoElement)}
    ></video>
  </div>`;
}

/** The frame around a picture has its proportions, which turn with a phone. */
function takeShape(video: HTMLVideoElement): void {
  if (video.videoHeight === 0) return; // nothing is shown any more
  video.style.setProperty("--ratio", String(video.videoWidth / video.videoHeight));
}
