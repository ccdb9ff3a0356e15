import { type Camera, type CameraOptions, openCamera } from "../media/camera.ts";
import { Store } from "../state/store.ts";

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
