import type { Waveform } from "../audio/waveform.ts";
import type { SpokenLine, Timeline } from "./timeline.ts";

const USER = 0;
/** Peaks below this are silence, also in a recording that has nothing louder. */
const LEAST_PEAK = 0.02;
const SHARE_OF_LOUDEST = 0.12;
const SHORTEST_MS = 100;
/** Pauses within a sentence are shorter. */
const PAUSE_MS = 900;
/** Sound that ends this long before the estimated start belongs to something else. */
const FAR_MS = 5000;

/** Part of one side without a longer silence. */
interface SoundRun {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** The parts of a channel with sound. Silence below `gapMs` does not end a part. */
export function soundRuns(
  { channels, rate }: Waveform,
  channel: number,
  gapMs = PAUSE_MS,
): SoundRun[] {
  const peaks = channels[channel] ?? new Float32Array(0);
  const loudest = peaks.reduce((most, peak) => Math.max(most, peak), 0);
  const least = Math.max(LEAST_PEAK, SHARE_OF_LOUDEST * loudest);
  const runs: { fromMs: number; untilMs: number }[] = [];
  for (const [i, peak] of peaks.entries()) {
    if (peak < least) continue;
    const [fromMs, untilMs] = [(i * 1000) / rate, ((i + 1) * 1000) / rate];
    const last = runs.at(-1);
    if (last && fromMs - last.untilMs <= gapMs) last.untilMs = untilMs;
    else runs.push({ fromMs, untilMs });
  }
  return runs.filter(({ fromMs, untilMs }) => untilMs - fromMs >= SHORTEST_MS);
}

/** When the first sound of either side starts, or null. */
export function firstSoundMs(shape: Waveform): number | null {
  const starts = shape.channels.flatMap((_, channel) => soundRuns(shape, channel)[0]?.fromMs ?? []);
  return starts.length > 0 ? Math.min(...starts) : null;
}

/**
 * Moves the user's lines whose times are estimated to the sound of the user before them. A line
 * keeps its times if no sound fits.
 */
export function alignToSound(timeline: Timeline, shape: Waveform): Timeline {
  const runs = soundRuns(shape, USER);
  let freeMs = 0;
  const lines = timeline.lines.map((line): SpokenLine => {
    if (!line.estimated) return line;
    const run = runs.findLast((one) => one.fromMs < line.untilMs && one.untilMs > freeMs);
    if (!run || !fits(run, line)) return line;
    const atMs = Math.max(run.fromMs, freeMs);
    const untilMs = Math.min(run.untilMs, line.untilMs);
    freeMs = run.untilMs;
    return { ...line, atMs, untilMs };
  });
  return { ...timeline, lines: lines.sort((a, b) => a.atMs - b.atMs) };
}

/** Noise that never pauses says nothing about the words. */
function fits(run: SoundRun, line: SpokenLine): boolean {
  const longest = 3 * (line.untilMs - line.atMs) + 3000;
  return line.atMs - run.untilMs < FAR_MS && run.untilMs - run.fromMs < longest;
}
