import { html, type TemplateResult } from "lit";
import type { CallView } from "./call-view.ts";
import { callStrings } from "./strings.ts";

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
