/** A sound that came at a time, and how long it is. */
export interface TimedAudio {
  readonly atMs: number;
  readonly lastsMs: number;
}

export interface PlayedAudio {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * When each sound is heard: as it comes, or after what still plays. At the times in `hushes` a client
 * drops what it has not played yet; what nobody heard is null. As the recorder places them. Both in order.
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
