import { type Camera, type CameraOptions, openCamera } from "../media/camera.ts";
import { Store } from "../state/store.ts";

export interface CameraState {
  /** For the preview; null while nothing is shown. */
  readonly stream: MediaStream | null;
  /** The camera looks at the user. */
  readonly facesUser: boolean;
}

const DARK: CameraState = { stream: null, facesUser: true };

/** The camera of a call: one at a time, opened, turned and closed. */
export class CallCamera {
  readonly state = new Store<CameraState>(DARK);
  #camera: Camera | null = null;

  /** What shows it; for the session and for recorders. */
  get videoElement(): HTMLVideoElement | undefined {
    return this.#camera?.element;
  }

  /** In place of the one that is open. Rejects with the browser's DOMException; nothing is shown then. */
  async open(options: CameraOptions): Promise<void> {
    this.close(); // phones have no second one while the first is in use
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
