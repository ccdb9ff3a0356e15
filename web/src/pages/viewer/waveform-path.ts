import type { Waveform } from "../../audio/waveform.ts";

/** Pixels from one bar to the next. */
export const BAR_STEP = 3;
/** Below this a bar is silence: the lane's middle line. */
const LEAST = 1.25;
/** Quiet speech is seen, too. */
const CURVE = 0.6;
const FLOOR = 0.08;

/** One side's bars around `middle`, at most `half` high either way, as the data of an SVG path. */
export function waveformPath(
  { channels, rate }: Waveform,
  channel: number,
  { pxPerS, middle, half }: { pxPerS: number; middle: number; half: number },
): string {
  const peaks = channels[channel] ?? new Float32Array(0);
  const loudest = Math.max(FLOOR, most(peaks, 0, peaks.length));
  const bars: string[] = [];
  for (let x = 0; ; x += BAR_STEP) {
    const from = Math.floor((x / pxPerS) * rate);
    if (from >= peaks.length) break;
    const peak = most(peaks, from, Math.max(from + 1, ((x + BAR_STEP) / pxPerS) * rate));
    const tall = (peak / loudest) ** CURVE * half;
    if (tall >= LEAST)
      bars.push(`M${x + 1} ${(middle - tall).toFixed(1)}v${(2 * tall).toFixed(1)}`);
  }
  return bars.join("");
}

function most(peaks: Float32Array, from: number, until: number): number {
  let found = 0;
  for (let i = from; i < Math.min(until, peaks.length); i++) {
    found = Math.max(found, peaks[i] as number);
  }
  return found;
}
