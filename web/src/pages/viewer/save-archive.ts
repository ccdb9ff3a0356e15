import { fetchApi } from "../../api/http.ts";
import { archivePath, type RecordingMeta } from "../../api/recordings.ts";
import { saveBlob, savedName, saveUrl } from "../../session/browser-recording.ts";
import type { Assets } from "./recording-loader.ts";

/** Saves the recording as a ZIP. With a key the file is fetched first. Rejects with ApiError. */
export async function downloadArchive(
  name: string,
  { app_type, created_at }: RecordingMeta,
  assets: Assets,
): Promise<void> {
  const file = `${savedName(app_type, created_at)}.zip`;
  if (assets.areOpen) saveUrl(file, archivePath(name));
  else saveBlob(file, await (await fetchApi(archivePath(name))).blob());
}

/** Saves a single file. */
export async function downloadFile(file: string, assets: Assets): Promise<void> {
  saveUrl(file, await assets.url(file));
}
