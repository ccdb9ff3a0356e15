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
