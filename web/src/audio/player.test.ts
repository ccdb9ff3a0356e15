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
