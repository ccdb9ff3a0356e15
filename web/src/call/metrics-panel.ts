import { html, nothing, type TemplateResult } from "lit";
import { formatDuration, formatNumber } from "../i18n/format.ts";
import type { DuplexMetrics } from "../session/duplex-metrics.ts";
import type { CallView } from "./call-view.ts";
import { metricsStrings } from "./metrics-strings.ts";

const WIDE = matchMedia("(min-width: 60rem)");

/** Metrics of a call as numbers and charts. The charts load when they are opened. */
export function metricsPanel({ call, state, tab }: CallView): TemplateResult {
  const t = metricsStrings();
  const { metrics } = state.sessionState;
  if (metrics.units === 0) return html`<p class="small soft empty">${t.none}</p>`;
  return html`<div class="stack loose">
    <dl class="facts">${figures(metrics)}</dl>
    <details
      class="fold"
      ?open=${WIDE.matches && tab === "metrics"}
      @toggle=${({ target }: Event) => (target as HTMLDetailsElement).open && loadCharts()}
    >
      <summary>${t.charts}</summary>
      <an-metrics-charts .columns=${call.history.columns} .units=${metrics.units}>
        <p class="small soft">${t.loading}</p>
      </an-metrics-charts>
    </details>
  </div>`;
}

function figures(metrics: DuplexMetrics): TemplateResult[] {
  const t = metricsStrings();
  const { unit, firstAudioMs, firstAudioMedianMs, gaps, gapMs } = metrics;
  const median = firstAudioMedianMs === null ? "" : t.median(formatDuration(firstAudioMedianMs));
  return [
    figure(t.latency, t.latencyHint, length(unit?.latencyMs ?? null)),
    figure(t.firstAudio, t.firstAudioHint, length(firstAudioMs), median),
    figure(t.drift, t.driftHint, length(unit?.driftMs ?? null)),
    figure(t.gaps, t.gapsHint, t.gapCount(gaps, formatDuration(gapMs))),
    figure(t.context, t.contextHint, formatNumber(unit?.kvLength ?? 0)),
    figure(t.cost, t.costHint, length(unit?.costMs ?? null)),
    figure(t.delay, "", length(metrics.delayMs)),
    figure(t.ahead, "", length(metrics.aheadMs)),
    figure(t.clock, "", length(metrics.captureDriftMs)),
    figure(t.units, "", formatNumber(metrics.units)),
  ];
}

function figure(name: string, hint: string, value: string, more = ""): TemplateResult {
  return html`<div title=${hint}>
    <dt>${name}</dt>
    <dd>${value}${more === "" ? nothing : html`<span class="tiny soft more">${more}</span>`}</dd>
  </div>`;
}

function length(ms: number | null): string {
  return ms === null ? "–" : formatDuration(Math.round(ms));
}

function loadCharts(): void {
  void import("./metrics-charts.ts");
}
