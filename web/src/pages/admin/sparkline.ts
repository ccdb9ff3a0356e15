import { html, svg, type TemplateResult } from "lit";
import { formatDuration } from "../../i18n/format.ts";
import { adminStrings } from "./strings.ts";

const WIDTH = 120;
const HEIGHT = 28;
const EDGE = 2.5;
/** A line of fewer points does not fill the width: it grows from the right. */
const POINTS = 12;
/** The line never fills the height with what is no difference, ms. */
const LEAST_MS = 100;

/** The waits for the newest answers as a small line, newest on the right. */
export function sparkline(waits: readonly number[]): TemplateResult {
  const last = waits.at(-1);
  if (last === undefined) return html`<span class="soft">${adminStrings().nobody}</span>`;
  const most = Math.max(...waits);
  const step = (WIDTH - 2 * EDGE) / (Math.max(POINTS, waits.length) - 1);
  const points = waits.map((ms, n) => {
    const x = WIDTH - EDGE - (waits.length - 1 - n) * step;
    const y = HEIGHT - EDGE - (ms / Math.max(most, LEAST_MS)) * (HEIGHT - 2 * EDGE);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const end = points.at(-1)?.split(",");
  return html`<span class="latency">
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${adminStrings().lately(formatDuration(last), formatDuration(most))}>
      ${svg`<line x1="0" x2=${WIDTH} y1=${HEIGHT - 1} y2=${HEIGHT - 1} /><polyline points=${points.join(" ")} /><circle cx=${end?.[0]} cy=${end?.[1]} r="2.5" />`}
    </svg>
    <span class="number strong">${formatDuration(last)}</span>
  </span>`;
}
