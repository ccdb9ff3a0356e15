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
  if (state.file?.hasPicture) return html`<div class="picture">${state.file.element}</div>`;
  const { stream, facesUser } = call.camera.state.value;
  return html`<div class="picture ${facesUser && values.mirror ? "mirrored" : ""}">
    <video autoplay playsinline .muted=${true} .srcObject=${stream} aria-label=${label}></video>
  </div>`;
}
