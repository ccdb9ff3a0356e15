/** An audio clip: arrival time and length. */
export interface TimedAudio {
  readonly atMs: number;
  readonly lastsMs: number;
}

export interface PlayedAudio {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * When each clip plays: on arrival, or after the previous clip. At each time in `flushes` the
 * client drops unplayed audio. Null means not played. The recorder uses the same rules. Both lists
 * are ordered.
 */
export function playbackTimes(
  sounds: readonly TimedAudio[],
  flushes: readonly number[],
): readonly (PlayedAudio | null)[] {
  const heard: (PlayedAudio | null)[] = [];
  const waiting = [...flushes];
  let pen = 0;
  for (const { atMs, lastsMs } of sounds) {
    while ((waiting[0] ?? Number.POSITIVE_INFINITY) <= atMs) {
      const now = waiting.shift() as number;
      cut(heard, now);
      pen = Math.min(pen, now);
    }
    const fromMs = Math.max(pen, atMs);
    pen = fromMs + lastsMs;
    heard.push({ fromMs, untilMs: pen });
  }
  for (const now of waiting) cut(heard, now);
  return heard;
}

function cut(heard: (PlayedAudio | null)[], now: number): void {
  for (let i = heard.length - 1; i >= 0; i--) {
    const one = heard[i];
    if (!one) continue;
    if (one.untilMs <= now) return;
    heard[i] = one.fromMs >= now ? null : { fromMs: one.fromMs, untilMs: now };
  }
}
