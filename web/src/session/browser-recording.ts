import { fetchApi } from "../api/http.ts";
import { forgetSaved } from "../storage/kept-recordings.ts";

const EXTENSIONS: Record<string, string> = {
  "audio/wav": "wav",
  "audio/webm": "webm",
  "video/mp4": "mp4",
  "video/webm": "webm",
};

/**
 * The name of a saved file without its extension, such as `antiphon-omni-2026-11-21-1412`. `kind`
 * must not contain the recording id, which gives access to the recording.
 */
export function savedName(kind: string, when: number | string | Date = new Date()): string {
  const date = new Date(when);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString();
  return `antiphon-${kind}-${local.slice(0, 16).replace("T", "-").replace(":", "")}`;
}

/** Uploads a recording of the browser to the server's recording. Rejects with ApiError. */
export async function uploadRecording(recordingId: string, recording: Blob): Promise<void> {
  const form = new FormData();
  form.append("file", await finished(recording), `recording.${extension(recording)}`);
  const path = `/api/sessions/${encodeURIComponent(recordingId)}/upload-recording`;
  await fetchApi(path, { method: "POST", body: form });
  forgetSaved(recording);
}

/** Saves a recording of this browser as a file. `name` has no extension. */
export async function saveRecording(name: string, recording: Blob): Promise<void> {
  saveBlob(`${name}.${extension(recording)}`, await finished(recording));
  forgetSaved(recording);
}

/** A film of MediaRecorder has no duration and no index, so that players cannot seek in it. */
async function finished(recording: Blob): Promise<Blob> {
  if (!recording.type.startsWith("video")) return recording;
  try {
    return await seekableFilm(recording);
  } catch {
    return recording; // the film as it is, because it is better than none
  }
}

/**
 * Writes a film again with its duration and an index. Pictures and sound are copied, not encoded.
 * Rejects if the film cannot be read.
 */
async function seekableFilm(film: Blob): Promise<Blob> {
  const {
    BlobSource,
    BufferTarget,
    Conversion,
    Input,
    MATROSKA,
    MP4,
    Mp4OutputFormat,
    Output,
    WEBM,
    WebMOutputFormat,
  } = await import("mediabunny"); // large
  const target = new BufferTarget();
  const isMp4 = film.type.includes("mp4");
  const format = isMp4 ? new Mp4OutputFormat({ fastStart: "in-memory" }) : new WebMOutputFormat();
  const input = new Input({ source: new BlobSource(film), formats: [MP4, WEBM, MATROSKA] });
  const conversion = await Conversion.init({
    input,
    output: new Output({ format, target }),
    showWarnings: false,
  });
  if (!conversion.isValid) throw new RangeError("the film has a track that cannot be copied");
  await conversion.execute();
  if (target.buffer === null) throw new RangeError("the film is empty");
  return new Blob([target.buffer], { type: film.type });
}

/** Saves a file that the page has. */
export function saveBlob(name: string, file: Blob): void {
  const url = URL.createObjectURL(file);
  saveUrl(name, url);
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads the URL after the click
}

/** Saves what an address of this server or of this page contains. */
export function saveUrl(name: string, url: string): void {
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
}

function extension(blob: Blob): string {
  return EXTENSIONS[blob.type.split(";")[0] ?? ""] ?? "bin";
}
