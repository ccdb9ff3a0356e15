import { html, type TemplateResult } from "lit";
import type { CallView } from "./view.ts";
import { words } from "./words.ts";

/** Whether there is anything to see. */
export function showsPicture({ call, state }: CallView): boolean {
  if (state.talk.phase === "ended") return false;
  return state.file?.hasPicture === true || call.camera.state.value.stream !== null;
}

/** What the model is shown; a front camera's picture like a mirror, if that is wanted. */
export function picture({ call, state, values }: CallView): TemplateResult {
  const label = words().pictureOfYou;
  if (state.file?.hasPicture) {
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
