import { type SVGTemplateResult, svg } from "lit";
import type { Waveform } from "../../audio/waveform.ts";
import type { SpeakerSegment, Timeline, TimelineEvent, UnitCost } from "../../replay/timeline.ts";

const RULER = 22;
const PICTURES = 60;
const WAVE = 60;
const WORDS = 24;
const GAP = 8;
const COSTS = 52;

/** Vertical layout of the lanes, pixels. */
export interface Lanes {
  readonly ruler: number;
  readonly frames: number | null;
  readonly frameHeight: number;
  readonly user: number;
  readonly model: number;
  readonly wave: number;
  readonly words: number;
  readonly costs: number | null;
  readonly costHeight: number;
  readonly height: number;
}

export function lanesOf(timeline: Timeline): Lanes {
  const hasFrames = timeline.frames.length > 0;
  const hasCosts = timeline.costs.some(({ total }) => total > 0);
  const user = RULER + (hasFrames ? PICTURES + GAP : GAP);
  const model = user + WAVE + WORDS + GAP;
  const costs = model + WAVE + WORDS + GAP;
  return {
    ruler: RULER,
    frames: hasFrames ? RULER + GAP / 2 : null,
    frameHeight: PICTURES - GAP,
    user,
    model,
    wave: WAVE,
    words: WORDS,
    costs: hasCosts ? costs : null,
    costHeight: COSTS,
    height: hasCosts ? costs + COSTS : costs - GAP,
  };
}

/** Seconds between ruler ticks, so that labels have room. */
export function tickS(pxPerS: number): number {
  const wanted = 72 / pxPerS;
  return [1, 2, 5, 10, 15, 30, 60, 120, 300].find((step) => step >= wanted) ?? 600;
}

export function segmentShapes(segments: readonly SpeakerSegment[], lanes: Lanes, pxPerS: number) {
  return segments.map(({ mode, fromMs, untilMs }) => {
    const y = mode === "listen" ? lanes.user : lanes.model;
    const width = Math.max(1, ((untilMs - fromMs) / 1000) * pxPerS);
    return svg`<rect class="band ${mode}" x=${(fromMs / 1000) * pxPerS} y=${y} width=${width} height=${lanes.wave} rx="5" />`;
  });
}

export function eventShapes(events: readonly TimelineEvent[], lanes: Lanes, pxPerS: number) {
  return events.map(({ atMs, type }) => {
    const x = (atMs / 1000) * pxPerS;
    return svg`<path class="mark ${type}" d="M${x} ${lanes.user}V${lanes.height}" />`;
  });
}

const PARTS = ["read", "think", "speak"] as const;

/** One bar per unit: input, text and voice. */
export function costShapes(
  costs: readonly UnitCost[],
  lanes: Lanes,
  pxPerS: number,
): SVGTemplateResult[] {
  if (lanes.costs === null) return [];
  const bottom = lanes.costs + lanes.costHeight;
  const scale = (lanes.costHeight - 4) / Math.max(1, ...costs.map(({ total }) => total));
  return costs.map((cost, i) => {
    const x = (cost.atMs / 1000) * pxPerS;
    const room = (((costs[i + 1]?.atMs ?? cost.atMs + 1000) - cost.atMs) / 1000) * pxPerS;
    const width = Math.max(1, Math.min(12, room - 1.5));
    let top = bottom - Math.max(1, cost.total * scale);
    const whole = svg`<rect class="cost" x=${x} y=${top} width=${width} height=${bottom - top} rx="1" />`;
    top = bottom;
    const parts = PARTS.map((part) => {
      const height = cost[part] * scale;
      top -= height;
      return height > 0.2
        ? svg`<rect class="cost ${part}" x=${x} y=${top} width=${width} height=${height} />`
        : svg``;
    });
    return svg`${whole}${parts}`;
  });
}

/** Width of a bar and its gap, pixels. */
const BAR_STEP = 3;
/** Below this level only the middle line is drawn. */
const LEAST = 1.25;
/** Makes quiet speech visible. */
const CURVE = 0.6;
const FLOOR = 0.08;

/** Returns SVG path data of bars around `middle`, at most `half` high in each direction. */
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
