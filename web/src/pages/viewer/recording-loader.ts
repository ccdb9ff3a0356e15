import { ApiError } from "../../api/http.ts";
import {
  type RecordingMeta,
  recordingComment,
  recordingMeta,
  recordingTimeline,
} from "../../api/recordings.ts";
import { type Timeline, timelineOf } from "../../replay/timeline.ts";
import { Store } from "../../state/store.ts";
import { isOnDeviceOnly } from "../../storage/conversations.ts";
import { type OwnRecording, ownRecording } from "./own-recording.ts";

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
      this.#showOwn("not_on_server");
      return;
    }
    try {
      const meta = await recordingMeta(this.#name);
      if (isBusy(meta) && this.#own) this.#showOwn("merging");
      else if (meta.state === "recording") this.state.set({ is: "live", meta });
      else await this.#open(meta);
      if (isBusy(meta)) this.#poll();
    } catch (error) {
      this.#failed(error);
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
    const title = this.#own?.title ?? "";
    const timeline = timelineOf(recording);
    this.state.set({ is: "open", meta, timeline, comment, title, own: null });
  }

  #showOwn(why: OwnFiles["why"]): void {
    const { value } = this.state;
    if (value.is === "open" && value.own?.why === why) return;
    if (this.#own === null) {
      this.state.set({ is: "closed", error: new ApiError(404, "not_found", "") });
      return;
    }
    const { meta, timeline, title, files } = this.#own;
    this.state.set({ is: "open", meta, timeline, comment: "", title, own: { files, why } });
  }

  /** A loaded recording stays on the screen while the server is unreachable. */
  #failed(error: unknown): void {
    const away = error instanceof ApiError && (error.status === 0 || error.status >= 500);
    const { is } = this.state.value;
    if (away && (is === "open" || is === "live")) this.#poll();
    else if (this.#own) this.#showOwn("not_on_server");
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
