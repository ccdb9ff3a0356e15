import { ApiError } from "../../api/http.ts";
import {
  type Recording,
  type RecordingMeta,
  recordingComment,
  recordingMeta,
  recordingTimeline,
} from "../../api/recordings.ts";
import { Store } from "../../state/store.ts";
import { type Timeline, timelineOf } from "./timeline.ts";

const POLL_MS = 2000;

export type LoadState =
  | { readonly is: "loading" }
  /** `error`: an ApiError or any other error. */
  | { readonly is: "closed"; readonly error: unknown }
  /** The session is still active. */
  | { readonly is: "live"; readonly meta: RecordingMeta }
  | {
      readonly is: "open";
      readonly meta: RecordingMeta;
      readonly recording: Recording;
      readonly timeline: Timeline;
      readonly comment: string;
    };

/** Loads a recording, and polls while it is being recorded or merged. */
export class RecordingLoader {
  readonly state = new Store<LoadState>({ is: "loading" });
  readonly #name: string;
  #timer = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** Loads now. Errors become the state. */
  async load(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      const meta = await recordingMeta(this.#name);
      if (meta.state === "recording") this.state.set({ is: "live", meta });
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
    if (before.is === "open" && before.meta.replay === meta.replay) return;
    const [recording, comment] = await Promise.all([
      recordingTimeline(this.#name),
      recordingComment(this.#name),
    ]);
    this.state.set({ is: "open", meta, recording, timeline: timelineOf(recording), comment });
  }

  /** A loaded recording stays on the screen while the server is unreachable. */
  #failed(error: unknown): void {
    const away = error instanceof ApiError && (error.status === 0 || error.status >= 500);
    const { is } = this.state.value;
    if (away && (is === "open" || is === "live")) this.#poll();
    else this.state.set({ is: "closed", error });
  }

  #poll(): void {
    this.#timer = window.setTimeout(() => void this.load(), POLL_MS);
  }
}

function isBusy(meta: RecordingMeta): boolean {
  return meta.state === "recording" || meta.replay === "merging";
}
