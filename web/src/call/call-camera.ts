import { html, type TemplateResult } from "lit";
import { type Camera, type CameraOptions, openCamera } from "../media/camera.ts";
import { Store } from "../state/store.ts";
import type { CallView } from "./call-view.ts";
import { callStrings } from "./strings.ts";

export interface CameraState {
  /** For the preview. Null if there is no video. */
  readonly stream: MediaStream | null;
  /** Whether this is the front camera. */
  readonly facesUser: boolean;
}

const DARK: CameraState = { stream: null, facesUser: true };

/** The camera of a call. Only one is open at a time. */
export class CallCamera {
  readonly state = new Store<CameraState>(DARK);
  #camera: Camera | null = null;

  /** The video element, for the session and for recorders. */
  get videoElement(): HTMLVideoElement | undefined {
    return this.#camera?.element;
  }

  /** Replaces the open camera. Rejects with the browser's DOMException, and then shows no video. */
  async open(options: CameraOptions): Promise<void> {
    this.close(); // phones cannot open a second camera
    const camera = await openCamera(options);
    this.close();
    this.#camera = camera;
    camera.onEnd(() => {
      if (camera === this.#camera) this.close();
    });
    this.state.set({ stream: camera.stream, facesUser: camera.mirrored });
  }

  close(): void {
    this.#camera?.close();
    this.#camera = null;
    this.state.set(DARK);
  }
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
