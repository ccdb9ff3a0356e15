import { openStream } from "./open-stream.ts";

export type Facing = "user" | "environment";

export interface CameraOptions {
  /** From `MediaDeviceInfo`. Overrides `facing`. */
  deviceId?: string | undefined;
  facing?: Facing;
  /** Requested length of the longer edge, pixels. */
  edge?: number;
}

/** The user's camera, created by `openCamera`. The browser shows it as in use until `close`. */
export class Camera {
  readonly stream: MediaStream;
  /** Plays the stream for `grabFrame`. It is not in the document. A preview can use `stream`. */
  readonly element: HTMLVideoElement;

  constructor(stream: MediaStream, element: HTMLVideoElement) {
    this.stream = stream;
    this.element = element;
  }

  get deviceId(): string | undefined {
    return this.#settings.deviceId;
  }

  get facing(): Facing {
    return this.#settings.facingMode === "environment" ? "environment" : "user";
  }

  /** Whether the preview is mirrored. Sent frames never are. */
  get mirrored(): boolean {
    return this.facing === "user";
  }

  onEnd(listener: () => void): void {
    this.stream.getVideoTracks()[0]?.addEventListener("ended", listener);
  }

  close(): void {
    for (const track of this.stream.getTracks()) track.stop();
    this.element.srcObject = null;
  }

  get #settings(): MediaTrackSettings {
    return this.stream.getVideoTracks()[0]?.getSettings() ?? {};
  }
}

/**
 * Opens another camera if the selected one is not connected. Rejects with the browser's
 * DOMException: NotAllowedError, NotFoundError, NotReadableError.
 */
export async function openCamera(options: CameraOptions = {}): Promise<Camera> {
  const stream = await openStream(options.deviceId, (deviceId) => ({
    video: cameraConstraints({ ...options, deviceId }),
  }));
  const element = document.createElement("video");
  element.playsInline = true;
  element.muted = true;
  element.srcObject = stream;
  const camera = new Camera(stream, element);
  try {
    await element.play();
    return camera;
  } catch (error) {
    camera.close();
    throw error;
  }
}

export function cameraConstraints(options: CameraOptions): MediaTrackConstraints {
  const { deviceId, facing = "user", edge = 1280 } = options;
  const choice = deviceId ? { deviceId: { exact: deviceId } } : { facingMode: { ideal: facing } };
  return { ...choice, width: { ideal: edge }, height: { ideal: (edge * 9) / 16 } };
}

const JPEG_QUALITY = 0.8;

/** Maximum length of the longer edge of a frame, by the number of slices that the model uses. */
export function frameEdge(maxSliceNums: number): number {
  return maxSliceNums > 1 ? 1280 : 640;
}

/** Returns the current frame of `video` as a JPEG file, or undefined if there is none. */
export async function grabFrame(
  video: HTMLVideoElement,
  edge: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const size = scaledSize(video.videoWidth, video.videoHeight, edge);
  if (!size) return undefined;
  const canvas = Object.assign(document.createElement("canvas"), size);
  canvas.getContext("2d")?.drawImage(video, 0, 0, size.width, size.height);
  const blob = await new Promise<Blob | null>((resolve) => {
    canvas.toBlob(resolve, "image/jpeg", JPEG_QUALITY);
  });
  return blob ? new Uint8Array(await blob.arrayBuffer()) : undefined;
}

/** Scales down to a longer edge of at most `edge`. */
export function scaledSize(
  width: number,
  height: number,
  edge: number,
): { width: number; height: number } | undefined {
  if (width === 0 || height === 0) return undefined;
  const scale = Math.min(1, edge / Math.max(width, height));
  return { width: Math.round(width * scale), height: Math.round(height * scale) };
}
