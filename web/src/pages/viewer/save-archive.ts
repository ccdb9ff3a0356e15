import { fetchApi } from "../../api/http.ts";
import { archivePath } from "../../api/recordings.ts";
import type { Assets } from "./assets.ts";

/** Saves the recording as a ZIP. With a key the file is fetched first. Rejects with ApiError. */
export async function downloadArchive(name: string, assets: Assets): Promise<void> {
  if (assets.areOpen) return save(archivePath(name), `${name}.zip`);
  const archive = await (await fetchApi(archivePath(name))).blob();
  const url = URL.createObjectURL(archive);
  save(url, `${name}.zip`);
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads the URL after the click
}

/** Saves a single file. */
export async function downloadFile(file: string, assets: Assets): Promise<void> {
  save(await assets.url(file), file);
}

function save(href: string, name: string): void {
  const anchor = document.createElement("a");
  anchor.href = href;
  anchor.download = name;
  anchor.click();
}
