/** Outlines of the orb. Pure. Lengths are in viewBox units, angles and phases in radians. */

const POINTS = 48;

export interface Outline {
  readonly radius: number;
  /** Amplitude as a share of the radius. */
  readonly swing: number;
  /** Number of waves around the outline. */
  readonly waves: number;
  readonly phase: number;
}

/** Returns a closed, smooth path around the origin for the `d` attribute. */
export function outlinePath(outline: Outline): string {
  const points = Array.from({ length: POINTS }, (_, i) =>
    pointAt(outline, (i / POINTS) * 2 * Math.PI),
  );
  const middles = points.map((point, i) => between(point, points[(i + 1) % POINTS] ?? point));
  const curves = points.map((point, i) => `Q${pair(point)} ${pair(middles[i] ?? point)}`);
  return `M${pair(middles[POINTS - 1] ?? [0, 0])}${curves.join("")}Z`;
}

/** Radius at an angle, between `radius * (1 - swing)` and `radius * (1 + swing)`. */
export function radiusAt({ radius, swing, waves, phase }: Outline, angle: number): number {
  const slow = Math.sin(waves * angle + phase);
  const fast = Math.sin((waves + 2) * angle - 1.7 * phase);
  return radius * (1 + swing * (0.65 * slow + 0.35 * fast));
}

/** Maps a peak in dBFS to the level of an orb or a bar, 0 to 1. */
export function loudnessShare(peakDb: number): number {
  return Math.min(1, Math.max(0, (peakDb - QUIET_DB) / (LOUD_DB - QUIET_DB)));
}

const QUIET_DB = -48;
const LOUD_DB = -8;

type Point = readonly [number, number];

function pointAt(outline: Outline, angle: number): Point {
  const radius = radiusAt(outline, angle);
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
}

function between(one: Point, other: Point): Point {
  return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
}

function pair([x, y]: Point): string {
  return `${x.toFixed(2)} ${y.toFixed(2)}`;
}
