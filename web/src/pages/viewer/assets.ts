import { request } from "../../api/http.ts";
import { keyFor } from "../../api/key.ts";
import { assetPath } from "../../api/recordings.ts";

/**
 * The files of a recording, as addresses that pictures and players take. Those cannot send a key:
 * where one is needed the file is fetched with it first. The token of a share link needs none.
 */
export class Assets {
  readonly #name: string;
  readonly #kept = new Map<string, Promise<Blob>>();
  readonly #urls = new Map<string, Promise<string>>();

  constructor(name: string) {
    this.#name = name;
  }

  /** True when a file can be played while it loads. */
  get areOpen(): boolean {
    return isShareToken(this.#name) || keyFor("client") === null;
  }

  /** Rejects with ApiError. */
  url(file: string): Promise<string> {
    if (this.areOpen) return Promise.resolve(assetPath(this.#name, file));
    const known =
      this.#urls.get(file) ?? this.#blob(file).then((blob) => URL.createObjectURL(blob));
    this.#urls.set(file, known);
    return known;
  }

  /** Its bytes as they come. Rejects with ApiError. */
  async stream(file: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
    if (!this.areOpen) return (await this.#blob(file)).stream();
    const { body } = await request(assetPath(this.#name, file));
    return body ?? new Blob([]).stream();
  }

  #blob(file: string): Promise<Blob> {
    const known =
      this.#kept.get(file) ?? request(assetPath(this.#name, file)).then((found) => found.blob());
    this.#kept.set(file, known);
    return known;
  }
}

/** The token of a share link stands where otherwise the recording's id does. */
export function isShareToken(name: string): boolean {
  return name.startsWith("share_");
}
