import { fetchApi } from "../api/http.ts";
import { forgetSaved } from "../storage/kept-recordings.ts";

const EXTENSIONS: Record<string, string> = {
  "application/zip": "zip",
  "audio/wav": "wav",
  "audio/webm": "webm",
  "video/mp4": "mp4",
  "video/webm": "webm",
};

/** Returns the file name of a saved recording. */
export function recordingName(recordingId: string, recording: Blob): string {
  return `antiphon-${recordingId}.${EXTENSIONS[mediaType(recording)] ?? "bin"}`;
}

/** Uploads a recording of the browser to the server's recording. Rejects with ApiError. */
export async function uploadRecording(recordingId: string, recording: Blob): Promise<void> {
  const form = new FormData();
  form.append("file", recording, recordingName(recordingId, recording));
  const path = `/api/sessions/${encodeURIComponent(recordingId)}/upload-recording`;
  await fetchApi(path, { method: "POST", body: form });
  forgetSaved(recording);
}

/** Saves a recording as a file. */
export function saveRecording(recordingId: string, recording: Blob): void {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(recording);
  anchor.download = recordingName(recordingId, recording);
  anchor.click();
  forgetSaved(recording);
  setTimeout(() => URL.revokeObjectURL(anchor.href), 60_000); // the browser reads the URL after the click
}

function mediaType(blob: Blob): string {
  return blob.type.split(";")[0] ?? "";
}
