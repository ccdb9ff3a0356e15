import { html, type SVGTemplateResult, svg, type TemplateResult } from "lit";

/** Half heights of the bars of both voices; where one is loud the other is quiet, but not always. */
const THEY = [3, 5, 10, 19, 30, 38, 33, 40, 27, 17, 10, 6, 3, 3, 4, 3, 3, 3, 5, 9, 17, 26, 22, 13];
const YOU = [3, 3, 4, 3, 3, 3, 4, 3, 5, 11, 21, 31, 36, 28, 34, 24, 14, 8, 4, 3, 3, 3, 4, 3];

const STEP = 17;

/** Two voices that answer each other; decoration only. */
export function voicesIllustration(): TemplateResult {
  return html`<svg class="voices" viewBox="0 0 408 232" aria-hidden="true">
    <g class="they">${THEY.map((half, i) => bar(half, i, 66))}</g>
    <g class="you">${YOU.map((half, i) => bar(half, i, 166))}</g>
  </svg>`;
}

function bar(half: number, i: number, middle: number): SVGTemplateResult {
  const x = 8.5 + i * STEP;
  return svg`<line x1=${x} x2=${x} y1=${middle - half} y2=${middle + half} .style=${`--turn: ${i}`} />`;
}
