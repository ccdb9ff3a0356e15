import { nothing } from "lit";
import { until } from "lit/directives/until.js";
import { fetchApi } from "../../api/http.ts";
import { keyFor } from "../../api/key.ts";
import { assetPath } from "../../api/recordings.ts";

/**
 * URLs of a recording's files for image and media elements. Those cannot send a key, so with a key
 * the file is fetched first. A share token needs no key.
 */
export class Assets {
  readonly #name: string;
  readonly #cache = new Map<string, Promise<Blob>>();
  readonly #urls = new Map<string, Promise<string>>();
  readonly #shown = new Map<string, Promise<string>>();

  /** `own`: files that this browser has. */
  constructor(name: string, own: ReadonlyMap<string, Blob> = new Map()) {
    this.#name = name;
    for (const [file, blob] of own) this.#cache.set(file, Promise.resolve(blob));
  }

  /** Whether the server's files can be played while they load. */
  get areOpen(): boolean {
    return isShareToken(this.#name) || keyFor("client") === null;
  }

  /** For image templates. If loading fails, the browser shows its own placeholder. */
  source(file: string) {
    const path = assetPath(this.#name, file);
    if (this.areOpen) return path;
    const shown = this.#shown.get(file) ?? this.#url(file).catch(() => path);
    this.#shown.set(file, shown); // the same promise, so that images do not flicker when they are rendered again
    return until(shown, nothing);
  }

  /** Rejects with ApiError. */
  url(file: string): Promise<string> {
    const streams = this.areOpen && !this.#cache.has(file);
    return streams ? Promise.resolve(assetPath(this.#name, file)) : this.#url(file);
  }

  /** Streams the file. Rejects with ApiError. */
  async stream(file: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
    if (!this.areOpen || this.#cache.has(file)) return (await this.#blob(file)).stream();
    const { body } = await fetchApi(assetPath(this.#name, file));
    return body ?? new Blob([]).stream();
  }

  #url(file: string): Promise<string> {
    const known =
      this.#urls.get(file) ?? this.#blob(file).then((blob) => URL.createObjectURL(blob));
    this.#urls.set(file, known);
    return known;
  }

  #blob(file: string): Promise<Blob> {
    const known =
      this.#cache.get(file) ?? fetchApi(assetPath(this.#name, file)).then((found) => found.blob());
    this.#cache.set(file, known);
    return known;
  }
}

/** Whether `name` is a share token instead of a recording id. */
export function isShareToken(name: string): boolean {
  return name.startsWith("share_");
}
