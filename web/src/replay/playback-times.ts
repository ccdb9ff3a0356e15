/** An audio clip: arrival time and length. */
interface TimedAudio {
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
  const played: (PlayedAudio | null)[] = [];
  const waiting = [...flushes];
  let endMs = 0;
  for (const { atMs, lastsMs } of sounds) {
    while ((waiting[0] ?? Number.POSITIVE_INFINITY) <= atMs) {
      const now = waiting.shift() as number;
      cut(played, now);
      endMs = Math.min(endMs, now);
    }
    const fromMs = Math.max(endMs, atMs);
    endMs = fromMs + lastsMs;
    played.push({ fromMs, untilMs: endMs });
  }
  for (const now of waiting) cut(played, now);
  return played;
}

function cut(played: (PlayedAudio | null)[], now: number): void {
  for (let i = played.length - 1; i >= 0; i--) {
    const one = played[i];
    if (!one) continue;
    if (one.untilMs <= now) return;
    played[i] = one.fromMs >= now ? null : { fromMs: one.fromMs, untilMs: now };
  }
}
