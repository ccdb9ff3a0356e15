import { liveStream } from "../../api/admin.ts";
import { ApiError } from "../../api/http.ts";
import { backoffMs } from "../../protocol/backoff.ts";
import { Store } from "../../state/store.ts";
import { streamEvents } from "./event-stream.ts";
import { apply, EMPTY_SYSTEM, type System } from "./live-state.ts";

/** The server says something every ten seconds at least. */
const SILENT_MS = 25_000;

export interface LiveFeedState {
  /** `refused`: no token, a wrong one, or admin routes are closed; why is in `problem`. */
  readonly connection: "connecting" | "open" | "lost" | "refused";
  readonly problem: ApiError | null;
  readonly system: System;
  /** This machine's clock less that of Redis, ms. */
  readonly skew: number;
}

/** Keeps a page told of the whole system, over lost connections, until it is stopped. */
export class LiveFeed {
  readonly state = new Store<LiveFeedState>({
    connection: "connecting",
    problem: null,
    system: EMPTY_SYSTEM,
    skew: 0,
  });
  #leaving: AbortController | null = null;

  start(): void {
    this.stop();
    this.#leaving = new AbortController();
    this.#patch({ connection: "connecting", problem: null });
    void this.#run(this.#leaving.signal);
  }

  stop(): void {
    this.#leaving?.abort();
    this.#leaving = null;
  }

  async #run(leaving: AbortSignal): Promise<void> {
    for (let attempt = 0; !leaving.aborted; attempt++) {
      const heard = await this.#listen(leaving).catch((error: unknown) => this.#failed(error));
      if (leaving.aborted || this.state.value.connection === "refused") return;
      if (heard) attempt = 0;
      this.#patch({ connection: "lost" });
      await pause(backoffMs(attempt + 1), leaving);
    }
  }

  /** Until the connection ends. True: something came. */
  async #listen(leaving: AbortSignal): Promise<boolean> {
    const connection = new AbortController();
    const end = () => connection.abort();
    leaving.addEventListener("abort", end, { once: true, signal: connection.signal });
    let timer = 0;
    let heard = false;
    try {
      const response = await liveStream(connection.signal);
      if (response.body === null) return false;
      timer = window.setTimeout(end, SILENT_MS);
      for await (const { name, data } of streamEvents(response.body)) {
        clearTimeout(timer);
        timer = window.setTimeout(end, SILENT_MS);
        heard = true;
        this.#take(name, JSON.parse(data));
      }
    } catch (error) {
      if (!heard) throw error;
    } finally {
      clearTimeout(timer);
      end();
    }
    return heard;
  }

  #take(name: string, data: unknown): void {
    const system = apply(this.state.value.system, name, data);
    const looked = system.redis && system.at !== this.state.value.system.at;
    const skew = looked ? Date.now() - system.at : this.state.value.skew;
    this.#patch({ connection: "open", problem: null, system, skew });
  }

  #failed(error: unknown): false {
    const refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
    if (refused) this.#patch({ connection: "refused", problem: error });
    return false;
  }

  #patch(change: Partial<LiveFeedState>): void {
    this.state.set({ ...this.state.value, ...change });
  }
}

function pause(ms: number, leaving: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    leaving.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
