import { html, nothing, type TemplateResult } from "lit";
import { duration, number } from "../i18n/format.ts";
import type { DuplexMetrics } from "../session/duplex-metrics.ts";
import { measuresWords as words } from "./measures-words.ts";
import type { CallView } from "./view.ts";

const WIDE = matchMedia("(min-width: 60rem)");

/** What a call is like in figures, and how they went; the charts are loaded when they are opened. */
export function measuresPanel({ call, state, tab }: CallView): TemplateResult {
  const say = words();
  const { metrics } = state.talk;
  if (metrics.units === 0) return html`<p class="small soft empty">${say.none}</p>`;
  return html`<div class="stack loose">
    <dl class="facts">${figures(metrics)}</dl>
    <details
      class="fold"
      ?open=${WIDE.matches && tab === "measures"}
      @toggle=${({ target }: Event) => (target as HTMLDetailsElement).open && loadCharts()}
    >
      <summary>${say.charts}</summary>
      <an-unit-charts .columns=${call.history.columns} .units=${metrics.units}>
        <p class="small soft">${say.loading}</p>
      </an-unit-charts>
    </details>
  </div>`;
}

function figures(metrics: DuplexMetrics): TemplateResult[] {
  const say = words();
  const { unit, firstSoundMs, firstSoundMedianMs, gaps, gapMs } = metrics;
  const median = firstSoundMedianMs === null ? "" : say.median(duration(firstSoundMedianMs));
  return [
    figure(say.latency, say.latencyHint, length(unit?.latencyMs ?? null)),
    figure(say.firstSound, say.firstSoundHint, length(firstSoundMs), median),
    figure(say.drift, say.driftHint, length(unit?.driftMs ?? null)),
    figure(say.gaps, say.gapsHint, say.gapCount(gaps, duration(gapMs))),
    figure(say.context, say.contextHint, number(unit?.kvLength ?? 0)),
    figure(say.cost, say.costHint, length(unit?.costMs ?? null)),
    figure(say.delay, "", length(metrics.delayMs)),
    figure(say.ahead, "", length(metrics.aheadMs)),
    figure(say.clock, "", length(metrics.captureDriftMs)),
    figure(say.units, "", number(metrics.units)),
  ];
}

function figure(name: string, hint: string, value: string, more = ""): TemplateResult {
  return html`<div title=${hint}>
    <dt>${name}</dt>
    <dd>${value}${more === "" ? nothing : html`<span class="tiny soft more">${more}</span>`}</dd>
  </div>`;
}

function length(ms: number | null): string {
  return ms === null ? "–" : duration(Math.round(ms));
}

function loadCharts(): void {
  void import("./unit-charts.ts");
}
