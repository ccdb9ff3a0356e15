import type { DuplexResult } from "../protocol/duplex-messages.ts";

/** One unit as the page saw it; milliseconds, null where it cannot be known. */
export interface UnitMetrics {
  readonly at: number;
  readonly listen: boolean;
  /** From sending the chunk to receiving its result. */
  readonly latencyMs: number | null;
  /** How much later results come than at first: the network, or a server that falls behind. */
  readonly driftMs: number;
  readonly costMs: number;
  readonly llmMs: number;
  readonly ttsMs: number;
  /** In the worker, from reading the chunk to publishing its result. */
  readonly wallClockMs: number;
  readonly kvLength: number;
  readonly tokens: number;
  readonly visionTokens: number;
}

interface Sent {
  endMs: number; // of all audio sent so far
  at: number;
}

const MAX_UNANSWERED = 60;

/** Finds for each result the chunk that it answers, by the session time that both count. Pure. */
export class UnitLatencyTracker {
  #sent: Sent[] = [];
  #sentMs = 0;
  #offsetMs: number | null = 0; // the server's session time less ours
  #firstTransitMs: number | undefined;

  sent(chunkMs: number, at: number): void {
    this.#sentMs += chunkMs;
    this.#sent = [...this.#sent, { endMs: this.#sentMs, at }].slice(-MAX_UNANSWERED);
  }

  /** Chunks may have been lost: which of them the next result answers is no longer known. */
  interrupted(): void {
    this.#offsetMs = null;
  }

  /** `at`: `performance.now()`; `unixMs`: the same moment on the clock of the day. */
  received(result: DuplexResult, at: number, unixMs: number): UnitMetrics {
    return {
      at,
      listen: result.is_listen,
      latencyMs: this.#latency(result, at),
      driftMs: this.#drift(unixMs - result.server_send_ts * 1000),
      costMs: result.cost_all_ms,
      llmMs: result.cost_llm_ms,
      ttsMs: result.cost_tts_ms,
      wallClockMs: result.wall_clock_ms,
      kvLength: result.kv_cache_length,
      tokens: result.n_tokens,
      visionTokens: result.vision_tokens,
    };
  }

  #latency({ current_time, wall_clock_ms }: DuplexResult, at: number): number | null {
    if (this.#offsetMs === null) return this.#realign(current_time, at - wall_clock_ms);
    const ours = current_time - this.#offsetMs;
    const chunk = this.#sent.find(({ endMs }) => Math.abs(endMs - ours) < 1);
    if (!chunk) return this.#realign(current_time, at - wall_clock_ms);
    this.#sent = this.#sent.filter(({ endMs }) => endMs > ours);
    return at - chunk.at;
  }

  /** The worker read the chunk at `readAt` or before: it is taken for the newest one that was there then. */
  #realign(serverMs: number, readAt: number): null {
    const chunk = this.#sent.findLast((sent) => sent.at <= readAt);
    if (chunk) this.#offsetMs = serverMs - chunk.endMs;
    return null;
  }

  /** Two clocks: only how their difference changes means anything. */
  #drift(transitMs: number): number {
    this.#firstTransitMs ??= transitMs;
    return transitMs - this.#firstTransitMs;
  }
}
