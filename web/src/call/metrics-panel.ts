import { html, nothing, type TemplateResult } from "lit";
import { formatDuration, formatNumber } from "../i18n/format.ts";
import { defineStrings } from "../i18n/language.ts";
import type { DuplexMetrics } from "../session/metrics.ts";
import type { CallView } from "./call-view.ts";

export const metricsStrings = defineStrings(
  {
    latency: "Latency",
    latencyHint: "Time from sending one second of audio to its result.",
    firstAudio: "Time to first audio",
    firstAudioHint: "Time from the end of your speech to the first audio, for each answer.",
    drift: "Drift",
    driftHint: "How much later results arrive than at the start.",
    gaps: "Playback gaps",
    gapsHint: "Total silence within answers.",
    context: "Context",
    contextHint: "Tokens in the context of the model.",
    cost: "Compute time",
    costHint: "Compute time per unit: total and text generation.",
    delay: "Playback delay",
    ahead: "Buffered audio",
    units: "Units",
    clock: "Microphone clock drift",
    median: (length: string) => `median ${length}`,
    charts: "Charts",
    none: "Metrics appear during a call.",
    gapCount: (count: number, length: string) => (count === 0 ? "none" : `${count}, ${length}`),
    loading: "Loading charts…",
  },
  {
    latency: "延迟",
    latencyHint: "从发送一秒音频到收到结果的时间。",
    firstAudio: "首个音频",
    firstAudioHint: "从您说完到第一个音频的时间，每次回答一个值。",
    drift: "漂移",
    driftHint: "结果比开始时晚到多少。",
    gaps: "播放中断",
    gapsHint: "回答中静音的总时长。",
    context: "上下文",
    contextHint: "模型上下文中的词元数。",
    cost: "计算时间",
    costHint: "每个单元的计算时间：总计与文本生成。",
    delay: "播放延迟",
    ahead: "缓冲音频",
    units: "单元",
    clock: "麦克风时钟偏移",
    median: (length) => `中位数 ${length}`,
    charts: "图表",
    none: "通话时会显示指标。",
    gapCount: (count, length) => (count === 0 ? "无" : `${count} 次，${length}`),
    loading: "正在加载图表…",
  },
);

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
