import { fetchApi } from "../api/http.ts";

const EXTENSIONS: Record<string, string> = {
  "application/zip": "zip",
  "audio/wav": "wav",
  "audio/webm": "webm",
  "video/mp4": "mp4",
  "video/webm": "webm",
};

/** A name for a recording that the user saves. */
export function recordingName(recordingId: string, recording: Blob): string {
  return `antiphon-${recordingId}.${EXTENSIONS[mediaType(recording)] ?? "bin"}`;
}

/** Put a recording that was made in the browser beside the server's own. Rejects with ApiError. */
export async function uploadRecording(recordingId: string, recording: Blob): Promise<void> {
  const form = new FormData();
  form.append("file", recording, recordingName(recordingId, recording));
  const path = `/api/sessions/${encodeURIComponent(recordingId)}/upload-recording`;
  await fetchApi(path, { method: "POST", body: form });
}

/** Let the browser save a recording. */
export function saveRecording(recordingId: string, recording: Blob): void {
  const connection = document.createElement("a");
  connection.href = URL.createObjectURL(recording);
  connection.download = recordingName(recordingId, recording);
  connection.click();
  setTimeout(() => URL.revokeObjectURL(connection.href), 60_000); // the browser reads it after the click
}

function mediaType(blob: Blob): string {
  return blob.type.split(";")[0] ?? "";
}
