const STEPS_MS = [100, 500, 1000, 2000, 3000];
const JITTER = 0.2; // random, so that clients of a failed edge do not all reconnect at once

/** Wait before attempt `n`, counted from 0. */
export function backoffMs(n: number, random: () => number = Math.random): number {
  const step = STEPS_MS[Math.min(n, STEPS_MS.length - 1)] as number;
  return step * (1 + JITTER * (2 * random() - 1));
}
