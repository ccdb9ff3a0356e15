import { nothing } from "lit";
import { until } from "lit/directives/until.js";
import type { RecordingMeta } from "../../api/answers.ts";
import { ApiError, fetchApi, keyFor } from "../../api/http.ts";
import {
  assetPath,
  isShareToken,
  recordingComment,
  recordingMeta,
  recordingTimeline,
} from "../../api/recordings.ts";
import { siteUrl } from "../../api/site.ts";
import {
  estimatedUserLine,
  LETTER_MS,
  type SpokenLine,
  type Timeline,
  timelineOf,
} from "../../replay/timeline.ts";
import { Store } from "../../state/store.ts";
import {
  isOnDeviceOnly,
  type OwnConversation,
  ownConversation,
  type StoredLine,
} from "../../storage/conversations.ts";
import { loadKept } from "../../storage/kept-recordings.ts";

const POLL_MS = 2000;
/** While the browser's own recording plays, it is replaced soon. */
const OWN_POLL_MS = 1000;

export type LoadState =
  | { readonly is: "loading" }
  /** `error`: an ApiError or any other error. */
  | { readonly is: "closed"; readonly error: unknown }
  /** The session is still active. */
  | { readonly is: "live"; readonly meta: RecordingMeta }
  | {
      readonly is: "open";
      readonly meta: RecordingMeta;
      readonly timeline: Timeline;
      readonly comment: string;
      /** The user's name for it, which only this browser knows. Empty without one. */
      readonly title: string;
      /** Files of the browser's own recording, which replaces the server's. */
      readonly own: OwnFiles | null;
    };

export interface OwnFiles {
  readonly files: ReadonlyMap<string, Blob>;
  /** Why the server's recording is not shown. */
  readonly why: "merging" | "not_on_server";
}

/**
 * Loads a recording, and polls while it is being recorded or merged. Until then it has what this
 * browser recorded itself.
 */
export class RecordingLoader {
  readonly state = new Store<LoadState>({ is: "loading" });
  readonly #name: string;
  #timer = 0;
  #own: OwnRecording | null = null;

  constructor(name: string) {
    this.#name = name;
  }

  /** Loads now. Errors become the state. */
  async load(): Promise<void> {
    clearTimeout(this.#timer);
    this.#own ??= await ownRecording(this.#name);
    if (isOnDeviceOnly(this.#name)) {
      await this.#showOwn("not_on_server");
      return;
    }
    try {
      const meta = await recordingMeta(this.#name);
      if (isBusy(meta) && this.#own) await this.#showOwn("merging");
      else if (meta.state === "recording") this.state.set({ is: "live", meta });
      else await this.#open(meta);
      if (isBusy(meta)) this.#poll();
    } catch (error) {
      await this.#failed(error);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  async #open(meta: RecordingMeta): Promise<void> {
    const before = this.state.value;
    const isShown = before.is === "open" && before.own === null;
    if (isShown && before.meta.replay === meta.replay) return;
    const [recording, comment] = await Promise.all([
      recordingTimeline(this.#name),
      recordingComment(this.#name),
    ]);
    const timeline = timelineOf(recording);
    const title = await storedTitle(this.#name);
    this.state.set({ is: "open", meta, timeline, comment, title, own: null });
  }

  async #showOwn(why: OwnFiles["why"]): Promise<void> {
    const { value } = this.state;
    if (value.is === "open" && value.own?.why === why) return;
    if (this.#own === null) {
      this.state.set({ is: "closed", error: new ApiError(404, "not_found", "") });
      return;
    }
    const { meta, timeline, files } = this.#own;
    const title = await storedTitle(this.#name);
    this.state.set({ is: "open", meta, timeline, comment: "", title, own: { files, why } });
  }

  /** A loaded recording stays on the screen while the server is unreachable. */
  async #failed(error: unknown): Promise<void> {
    const away = error instanceof ApiError && (error.status === 0 || error.status >= 500);
    const { is } = this.state.value;
    if (away && (is === "open" || is === "live")) this.#poll();
    else if (this.#own) await this.#showOwn("not_on_server");
    else this.state.set({ is: "closed", error });
  }

  #poll(): void {
    const waitMs = this.#own ? OWN_POLL_MS : POLL_MS;
    this.#timer = window.setTimeout(() => void this.load(), waitMs);
  }
}

function isBusy(meta: RecordingMeta): boolean {
  return meta.state === "recording" || meta.replay === "merging";
}

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
    const path = siteUrl(assetPath(this.#name, file));
    if (this.areOpen) return path;
    const shown = this.#shown.get(file) ?? this.#url(file).catch(() => path);
    this.#shown.set(file, shown); // the same promise, so that images do not flicker when they are rendered again
    return until(shown, nothing);
  }

  /** Whether `url` fetches the whole file from the server. */
  isFetched(file: string): boolean {
    return !this.areOpen && !this.#cache.has(file);
  }

  /** Rejects with ApiError. */
  url(file: string): Promise<string> {
    const streams = this.areOpen && !this.#cache.has(file);
    return streams ? Promise.resolve(siteUrl(assetPath(this.#name, file))) : this.#url(file);
  }

  /** Streams the file. Rejects with ApiError. */
  async stream(file: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
    if (!this.areOpen || this.#cache.has(file)) return (await this.#blob(file)).stream();
    const { body } = await fetchApi(assetPath(this.#name, file));
    return body ?? new Blob([]).stream();
  }

  /** Frees the memory of the files. Call it when no element shows them. */
  close(): void {
    for (const url of this.#urls.values()) url.then(URL.revokeObjectURL, () => undefined);
    this.#urls.clear();
    this.#shown.clear();
  }

  #url(file: string): Promise<string> {
    return remembered(this.#urls, file, async () => URL.createObjectURL(await this.#blob(file)));
  }

  #blob(file: string): Promise<Blob> {
    return remembered(this.#cache, file, async () =>
      (await fetchApi(assetPath(this.#name, file))).blob(),
    );
  }
}

/** The value of `key`. `get` runs again only if it failed. */
function remembered<T>(
  values: Map<string, Promise<T>>,
  key: string,
  get: () => Promise<T>,
): Promise<T> {
  const known = values.get(key);
  if (known) return known;
  const value = get();
  values.set(key, value);
  value.catch(() => values.delete(key));
  return value;
}

/** A conversation from the browser's database in the form that the viewer shows. */
export interface OwnRecording {
  readonly meta: RecordingMeta;
  readonly timeline: Timeline;
  /** Files by the names in `meta`. */
  readonly files: ReadonlyMap<string, Blob>;
}

/** What this browser has of a recording. Null if it has nothing, or no database. */
async function ownRecording(name: string): Promise<OwnRecording | null> {
  try {
    const found = await ownConversation(name);
    return found && (await loaded(name, found));
  } catch {
    return null;
  }
}

/** The user may change it while the page is open. */
async function storedTitle(name: string): Promise<string> {
  return (await ownConversation(name).catch(() => null))?.title ?? "";
}

async function loaded(name: string, found: OwnConversation): Promise<OwnRecording> {
  const files = new Map<string, Blob>();
  for (const kept of found.kept) {
    files.set(kept.type.startsWith("video") ? "own-video" : "own-audio.wav", await loadKept(kept));
  }
  const meta: RecordingMeta = {
    recording_id: name,
    session_id: found.id,
    ticket: 0,
    worker_id: "",
    first_words: "",
    missing: [],
    degraded: [],
    app_type: found.kind,
    state: "complete",
    created_at: new Date(found.startedAt).toISOString(),
    duration_s: found.durationMs / 1000,
    config: {},
    replay: files.size > 0 ? "ready" : "none",
    merged_replay: files.has("own-audio.wav") ? "own-audio.wav" : null,
    merged_replay_video: files.has("own-video") ? "own-video" : null,
  };
  return { meta, timeline: ownTimeline(found), files };
}

function ownTimeline({ lines, durationMs }: OwnConversation): Timeline {
  return {
    lengthMs: durationMs,
    lines: lines.map((line, i) => timed(line, lines[i + 1]?.atMs ?? durationMs)),
    segments: [],
    frames: [],
    events: [],
    costs: [],
  };
}

/** The user's words arrive after their sound, and the model's before. */
function timed({ role, text, atMs }: StoredLine, nextMs: number): SpokenLine {
  if (role === "user") return estimatedUserLine(text, atMs, 0);
  const untilMs = Math.max(atMs + 1, Math.min(nextMs, atMs + LETTER_MS * text.length));
  return { role, text, atMs, untilMs };
}
