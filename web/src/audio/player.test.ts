import { describe, expect, it, vi } from "vitest";
import { OUTPUT_RATE } from "./pcm.ts";
import { PLAYBACK_DELAY, PlaybackSchedule, Player } from "./player.ts";

/** Chunks of `durationS`, each arriving at its time. */
function play(schedule: PlaybackSchedule, arrivals: number[], durationS = 1) {
  return arrivals.map((now) => schedule.push(durationS, now));
}

describe("a turn", () => {
  it("starts after 200 ms and plays without seams", () => {
    const placed = play(new PlaybackSchedule(), [10, 11, 12]);
    expect(placed.map(({ startS }) => startS)).toEqual([10.2, 11.2, 12.2]);
    expect(placed.map(({ first }) => first)).toEqual([true, false, false]);
  });

  it("starts on the sample grid", () => {
    const { startS } = new PlaybackSchedule().push(1, 1.000013);
    expect(startS * OUTPUT_RATE).toBeCloseTo(Math.round(startS * OUTPUT_RATE), 6);
  });

  it("starts after the end of the previous turn", () => {
    const schedule = new PlaybackSchedule();
    schedule.push(2, 0);
    schedule.endTurn();
    const next = schedule.push(1, 1);
    expect(next).toEqual({ startS: 2.2, first: true, gapMs: 0 });
  });

  it("plays simultaneous chunks one after the other", () => {
    const placed = play(new PlaybackSchedule(), [0, 0, 0], 0.5);
    expect(placed.map(({ startS }) => startS)).toEqual([0.2, 0.7, 1.2]);
  });
});

describe("a late chunk", () => {
  it("counts as a gap and delays the next chunks", () => {
    const schedule = new PlaybackSchedule();
    const [, late] = play(schedule, [0, 1.5]);
    const gapMs = ((late?.startS ?? 0) - 1.2) * 1000;
    expect(late?.gapMs).toBeCloseTo(gapMs);
    expect(gapMs).toBeGreaterThan(300);
    const stats = schedule.stats(1.5);
    expect(stats.gaps).toBe(1);
    expect(stats.gapMs).toBeCloseTo(gapMs);
    expect(stats.driftMs).toBeCloseTo(gapMs);
  });

  it("increases the delay of the next turn by its lateness", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0, 1.5]);
    schedule.endTurn();
    expect(schedule.stats(9).delayMs).toBeCloseTo(500);
    expect(schedule.push(1, 10).startS).toBeCloseTo(10.5, 4);
    expect(schedule.stats(10).driftMs).toBe(0);
  });

  it("does not increase the delay beyond the limit", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0, 1.9, 4.0]);
    expect(schedule.stats(20).gaps).toBe(2);
    expect(schedule.stats(20).delayMs).toBe(PLAYBACK_DELAY.maxMs);
  });

  it("is ignored after an outage", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0, 7]);
    expect(schedule.stats(8)).toMatchObject({ gaps: 1, delayMs: PLAYBACK_DELAY.startMs });
  });
});

describe("a turn that the server pauses", () => {
  it("has no late chunks, and the next turn has its delay again", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0, 0.2], 0.2);
    schedule.hold();
    play(schedule, [0.8], 0.2);
    expect(schedule.stats(0.8).delayMs).toBe(200);
    schedule.endTurn();
    play(schedule, [2, 2.8], 0.2);
    expect(schedule.stats(2.8).delayMs).toBeGreaterThan(200);
  });
});

describe("the delay", () => {
  it("shrinks slowly while chunks are early, down to the limit", () => {
    const schedule = new PlaybackSchedule();
    const delays: number[] = [];
    for (let turn = 0; turn < 30; turn++) {
      play(schedule, [turn * 10, turn * 10 + 0.9, turn * 10 + 1.8]);
      schedule.endTurn();
      delays.push(schedule.stats(turn * 10 + 9).delayMs);
    }
    expect(delays[0]).toBeLessThan(200);
    expect(delays[0]).toBeGreaterThan(100);
    expect(delays.at(-1)).toBe(PLAYBACK_DELAY.minMs);
  });

  it("stays if every chunk has exactly the margin", () => {
    const schedule = new PlaybackSchedule();
    const late = (PLAYBACK_DELAY.startMs - PLAYBACK_DELAY.marginMs) / 1000;
    play(schedule, [0, 1 + late]);
    schedule.endTurn();
    expect(schedule.stats(9).delayMs).toBeCloseTo(PLAYBACK_DELAY.startMs, 3);
  });

  it("ignores a turn of one chunk", () => {
    const schedule = new PlaybackSchedule();
    schedule.push(1, 0);
    schedule.endTurn();
    expect(schedule.stats(5).delayMs).toBe(PLAYBACK_DELAY.startMs);
  });
});

describe("played audio", () => {
  it("is counted exactly", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0, 0.5]);
    expect(schedule.stats(0.1)).toMatchObject({ playing: true, playedMs: 0, aheadMs: 2000 });
    expect(schedule.stats(1.7).playedMs).toBeCloseTo(1500);
    expect(schedule.stats(1.7).aheadMs).toBeCloseTo(500);
    expect(schedule.stats(3)).toMatchObject({ playing: false, aheadMs: 0 });
    expect(schedule.stats(3).playedMs).toBeCloseTo(2000);
  });

  it("ends at a flush, and the next turn starts from zero", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0, 0.5]);
    expect(schedule.flush(0.7)).toBeCloseTo(1500);
    expect(schedule.stats(0.7)).toMatchObject({ playing: false, aheadMs: 0 });
    expect(schedule.stats(5).playedMs).toBeCloseTo(500);
    const next = schedule.push(1, 6);
    expect(next.first).toBe(true);
    expect(next.startS).toBeGreaterThan(6);
    expect(schedule.stats(6).turnPlayedMs).toBe(0);
  });

  it("excludes a turn that was flushed before playback", () => {
    const schedule = new PlaybackSchedule();
    schedule.push(1, 0);
    expect(schedule.flush(0.1)).toBeCloseTo(1000);
    expect(schedule.stats(0.1).playedMs).toBe(0);
  });
});

describe("a pause", () => {
  it("moves what was not played by its length", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0, 0.5]);
    schedule.pause(0.7);
    expect(schedule.stats(1.5)).toMatchObject({ paused: true, playing: true });
    expect(schedule.stats(1.5).playedMs).toBeCloseTo(500);
    expect(schedule.stats(1.5).aheadMs).toBeCloseTo(1500);
    expect(schedule.resume(1.7)).toBeCloseTo(1);
    expect(schedule.stats(1.7)).toMatchObject({ paused: false, playing: true });
    expect(schedule.stats(1.7).turnPlayedMs).toBeCloseTo(500);
    expect(schedule.stats(2.7).turnPlayedMs).toBeCloseTo(1500);
    expect(schedule.push(1, 2.7).startS).toBeCloseTo(3.2);
    expect(schedule.stats(4.3)).toMatchObject({ playing: false, gaps: 0, driftMs: 0 });
    expect(schedule.stats(4.3).playedMs).toBeCloseTo(3000);
  });

  it("is no gap, however late a chunk is in it, and chunks wait behind the others", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0]);
    schedule.pause(0.7);
    const [second, third] = play(schedule, [5, 6]);
    expect([second, third]).toMatchObject([{ gapMs: 0 }, { gapMs: 0 }]);
    schedule.resume(7.7);
    expect(third?.startS).toBeCloseTo(2.2);
    expect(schedule.stats(9.2).playedMs).toBeCloseTo(2000);
    expect(schedule.stats(9.2)).toMatchObject({ gaps: 0, gapMs: 0, driftMs: 0, playing: true });
  });

  it("does not change the delay of the next turn", () => {
    const delayAfter = (paused: boolean): number => {
      const schedule = new PlaybackSchedule();
      schedule.push(1, 0);
      if (paused) schedule.pause(0.5);
      schedule.push(1, 0.95);
      if (paused) schedule.resume(1.5);
      play(schedule, [1.98, 2.99]);
      schedule.endTurn();
      return schedule.stats(9).delayMs;
    };
    expect(delayAfter(true)).toBeCloseTo(delayAfter(false), 6);
  });

  it("counts neither for nor against a turn that begins in it", () => {
    const schedule = new PlaybackSchedule();
    schedule.pause(1);
    const [first] = play(schedule, [3, 4, 5]);
    expect(first).toMatchObject({ first: true });
    schedule.endTurn();
    expect(schedule.stats(5).delayMs).toBeLessThan(PLAYBACK_DELAY.startMs);
    const usual = new PlaybackSchedule();
    play(usual, [3, 4, 5]);
    usual.endTurn();
    expect(schedule.stats(5).delayMs).toBeCloseTo(usual.stats(5).delayMs, 6);
    schedule.resume(6);
    expect(schedule.stats(6.1).playedMs).toBe(0);
    expect(schedule.stats(6.3).playedMs).toBeCloseTo(100);
  });

  it("ends at a flush", () => {
    const schedule = new PlaybackSchedule();
    play(schedule, [0, 0.5]);
    schedule.pause(0.7);
    expect(schedule.flush(3)).toBeCloseTo(1500);
    expect(schedule.stats(3)).toMatchObject({ paused: false, playing: false });
    expect(schedule.stats(4).playedMs).toBeCloseTo(500);
    expect(schedule.resume(4)).toBe(0);
    expect(schedule.push(1, 5).startS).toBeGreaterThan(5);
  });
});

/**
 * As much of an AudioContext as a player uses. `rendered` is what its sources play. It is computed
 * at the end, so the clock of the test may stand anywhere when the player schedules a change.
 */
class RenderingContext {
  currentTime = 0;
  readonly sampleRate = OUTPUT_RATE;
  readonly baseLatency = 0.01;
  readonly #sources: RenderedSource[] = [];

  createGain(): RenderedGain {
    return new RenderedGain();
  }

  createBufferSource(): RenderedSource {
    const source = new RenderedSource();
    this.#sources.push(source);
    return source;
  }

  createBuffer(_: number, length: number): RenderedBuffer {
    return new RenderedBuffer(length);
  }

  rendered(seconds: number): Float32Array {
    const sum = new Float32Array(Math.round(seconds * OUTPUT_RATE));
    for (const source of this.#sources) source.addTo(sum);
    return sum;
  }
}

class RenderedBuffer {
  readonly samples: Float32Array;

  constructor(length: number) {
    this.samples = new Float32Array(length);
  }

  get duration(): number {
    return this.samples.length / OUTPUT_RATE;
  }

  copyToChannel(samples: Float32Array): void {
    this.samples.set(samples);
  }
}

/** A gain that is 1 until it is set, and then linear between the values. */
class RenderedGain {
  #points: [atS: number, value: number][] = [[0, 1]];

  connect(): void {}

  get gain() {
    const add = (value: number, atS: number): void => {
      this.#points.push([atS, value]);
    };
    return {
      setValueAtTime: (value: number, atS: number) => {
        add(this.at(atS), atS);
        add(value, atS);
      },
      linearRampToValueAtTime: add,
    };
  }

  at(timeS: number): number {
    if (this.#points.length === 1) return 1;
    const before = this.#points.findLast(([atS]) => atS <= timeS) ?? [0, 1];
    const after = this.#points.find(([atS]) => atS > timeS);
    if (!after) return before[1];
    const share = (timeS - before[0]) / (after[0] - before[0]);
    return before[1] + share * (after[1] - before[1]);
  }
}

class RenderedSource {
  buffer = new RenderedBuffer(0);
  onended = (): void => undefined;
  #gain = new RenderedGain();
  #startS = Infinity;
  #offsetS = 0;
  #stopS = Infinity;

  connect(gain: RenderedGain): void {
    this.#gain = gain;
  }

  disconnect(): void {}

  start(startS: number, offsetS = 0): void {
    this.#startS = startS;
    this.#offsetS = offsetS;
  }

  stop(stopS: number): void {
    this.#stopS = stopS;
  }

  addTo(sum: Float32Array): void {
    const start = Math.round(this.#startS * OUTPUT_RATE);
    const offset = Math.round(this.#offsetS * OUTPUT_RATE);
    for (let n = offset; n < this.buffer.samples.length; n++) {
      const at = start + n - offset;
      const gain = at < this.#stopS * OUTPUT_RATE ? this.#gain.at(at / OUTPUT_RATE) : 0;
      sum[at] = (sum[at] ?? 0) + gain * (this.buffer.samples[n] ?? 0);
    }
  }
}

describe("a player that pauses", () => {
  const SECONDS = 3;
  /** Each sample has its own value, so that a lost or repeated one is found. */
  const sent = Float32Array.from({ length: SECONDS * OUTPUT_RATE }, (_, n) => 1 + n);
  const PAUSED_MS = 700;

  function playing(): { context: RenderingContext; player: Player; log: string[] } {
    vi.stubGlobal("navigator", { userAgent: "Chrome/147.0" });
    const context = new RenderingContext();
    const player = new Player(context as unknown as AudioContext, {} as AudioNode);
    const log: string[] = [];
    for (const name of ["start", "gap", "idle", "flush", "pause", "resume"] as const) {
      player.on(name, () => log.push(name));
    }
    return { context, player, log };
  }

  const unit = (number: number) => sent.subarray(number * OUTPUT_RATE, (number + 1) * OUTPUT_RATE);

  const isEqual = (one: Float32Array, other: Float32Array) =>
    one.length === other.length && one.every((value, n) => value === other[n]);

  /** Pauses after `pauseS`. The last unit arrives during the pause. */
  function pausedAt(pauseS: number) {
    const { context, player, log } = playing();
    player.push(unit(0));
    context.currentTime = 0.9;
    player.push(unit(1));
    context.currentTime = pauseS;
    player.pause();
    context.currentTime = pauseS + 0.3;
    player.push(unit(2));
    context.currentTime = pauseS + PAUSED_MS / 1000;
    player.resume();
    vi.unstubAllGlobals();
    return { context, player, log };
  }

  it.each([0.95, 1.1937, 1.195, 2.0])("loses and repeats no sample (paused at %f s)", (pauseS) => {
    const { context, log } = pausedAt(pauseS);
    const played = context.rendered(6);
    const total = (samples: Float32Array) => samples.reduce((sum, value) => sum + value, 0);
    expect(Math.abs(total(played) / total(sent) - 1)).toBeLessThan(1e-6);
    const silent = Math.round((pauseS + 0.018) * OUTPUT_RATE) + 1;
    const resumed = Math.round((pauseS + 0.01 + PAUSED_MS / 1000) * OUTPUT_RATE);
    expect(played.subarray(silent, resumed).every((value) => value === 0)).toBe(true);
    const begin = Math.round(0.2 * OUTPUT_RATE);
    const paused = Math.round((pauseS + 0.01) * OUTPUT_RATE);
    expect(isEqual(played.subarray(begin, paused), sent.subarray(0, paused - begin))).toBe(true);
    const fade = Math.round(0.008 * OUTPUT_RATE) + 1;
    const rest = played.subarray(
      resumed + fade,
      begin + (SECONDS + PAUSED_MS / 1000) * OUTPUT_RATE,
    );
    expect(isEqual(rest, sent.subarray(paused - begin + fade))).toBe(true);
    expect(log).toEqual(["start", "pause", "resume"]);
  });

  it("fades in and out", () => {
    const { context } = pausedAt(0.95);
    const played = context.rendered(6).map((value, n) => (n > 0 && value > 0 ? value : 0));
    const steps = played.map((value, n) => Math.abs(value - (played[n - 1] ?? 0)));
    const at = (seconds: number) => Math.round(seconds * OUTPUT_RATE);
    const level = 0.76 * OUTPUT_RATE; // of the samples there
    const inside = [...steps.subarray(at(0.9), at(1.0)), ...steps.subarray(at(1.6), at(1.7))];
    expect(Math.max(...inside)).toBeLessThan((2 * level) / at(0.008));
  });

  it("counts the part that was played, and what is left is dropped by a flush", () => {
    const { context, player, log } = playing();
    player.push(unit(0));
    context.currentTime = 0.69;
    player.pause();
    context.currentTime = 2;
    expect(player.stats.turnPlayedMs).toBeCloseTo(500);
    player.flush();
    player.resume();
    vi.unstubAllGlobals();
    expect(player.stats).toMatchObject({ paused: false, playing: false });
    expect(log).toEqual(["start", "pause", "flush"]);
    const end = Math.round(0.708 * OUTPUT_RATE) + 1;
    expect(
      context
        .rendered(4)
        .subarray(end)
        .every((value) => value === 0),
    ).toBe(true);
  });

  it("announces a turn that begins in a pause when it plays", () => {
    const { context, player, log } = playing();
    player.pause();
    player.push(unit(0));
    expect(log).toEqual(["pause"]);
    context.currentTime = 1;
    let delayMs = 0;
    player.on("start", (start) => {
      delayMs = start.delayMs;
    });
    player.resume();
    vi.unstubAllGlobals();
    expect(delayMs).toBeCloseTo(PLAYBACK_DELAY.startMs + 10, 0);
    expect(log).toEqual(["pause", "start", "resume"]);
  });

  it("has nothing to resume if nothing was left", () => {
    const { player, log } = playing();
    player.pause();
    player.resume();
    vi.unstubAllGlobals();
    expect(log).toEqual(["pause", "idle"]);
  });
});

describe("the announced start of a turn", () => {
  /** As much of an AudioContext as a player uses. `outputLatency` is 0.1 s. */
  function contextWithLatency(reads: string[]): AudioContext {
    const node = { connect: () => undefined, start: () => undefined };
    return {
      currentTime: 0,
      sampleRate: OUTPUT_RATE,
      baseLatency: 0.01,
      get outputLatency() {
        reads.push("outputLatency");
        return 0.1;
      },
      createGain: () => node,
      createBufferSource: () => ({ ...node }),
      createBuffer: () => ({ copyToChannel: () => undefined }),
    } as unknown as AudioContext;
  }

  function announcedDelayMs(context: AudioContext, browser: string): number {
    vi.stubGlobal("navigator", { userAgent: `Mozilla/5.0 (X11; Linux x86_64) ${browser}` });
    const player = new Player(context, {} as AudioNode);
    let delayMs = Number.NaN;
    player.on("start", (start) => {
      delayMs = start.delayMs;
    });
    player.push(new Float32Array(OUTPUT_RATE));
    vi.unstubAllGlobals();
    return delayMs;
  }

  it("includes the latency of the output", () => {
    const delayMs = announcedDelayMs(contextWithLatency([]), "Chrome/147.0");
    expect(delayMs).toBeCloseTo(PLAYBACK_DELAY.startMs + 110);
  });

  it("does not read the latency of the output in Firefox, which can stop the page", () => {
    const reads: string[] = [];
    const delayMs = announcedDelayMs(contextWithLatency(reads), "Gecko/20100101 Firefox/153.0");
    expect(delayMs).toBeCloseTo(PLAYBACK_DELAY.startMs + 10);
    expect(reads).toEqual([]);
  });
});
