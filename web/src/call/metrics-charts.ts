import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { formatDuration, formatNumber } from "../i18n/format.ts";
import { BaseElement } from "../ui/base-element.ts";
import type { ChartSeries } from "./line-chart.ts";
import { metricsStrings } from "./metrics-strings.ts";
import type { UnitSeries } from "./unit-history.ts";
import "./line-chart.ts";

interface Chart {
  readonly name: string;
  readonly hint: string;
  readonly series: readonly ChartSeries[];
  readonly format: (value: number) => string;
}

/** A small chart for each metric of a call. */
@customElement("an-metrics-charts")
export class MetricsCharts extends BaseElement {
  @property({ attribute: false }) columns: UnitSeries | null = null;
  /** Increment it to redraw. The arrays in `columns` are the same objects during a call. */
  @property({ attribute: false }) units = 0;

  override connectedCallback(): void {
    this.textContent = ""; // removes the loading text
    super.connectedCallback();
  }

  protected override render(): TemplateResult {
    const { columns } = this;
    if (columns === null) return html``;
    return html`${charts(columns).map(
      ({ name, hint, series, format }) => html`<figure>
        <figcaption class="tiny" title=${hint}>${name}</figcaption>
        <an-line-chart
          .label=${name}
          .time=${columns.time}
          .series=${series}
          .format=${format}
          .version=${this.units}
        ></an-line-chart>
      </figure>`,
    )}`;
  }
}

function charts(columns: UnitSeries): Chart[] {
  const t = metricsStrings();
  const ms = (value: number): string => formatDuration(Math.round(value));
  const line = (values: ChartSeries["values"]): ChartSeries => ({ values, tone: "model" });
  return [
    { name: t.latency, hint: t.latencyHint, format: ms, series: [line(columns.latency)] },
    {
      name: t.firstAudio,
      hint: t.firstAudioHint,
      format: ms,
      series: [{ values: columns.firstAudio, tone: "model", dots: true }],
    },
    {
      name: t.cost,
      hint: t.costHint,
      format: ms,
      series: [line(columns.cost), { values: columns.llmCost, tone: "user" }],
    },
    { name: t.drift, hint: t.driftHint, format: ms, series: [line(columns.drift)] },
    { name: t.gaps, hint: t.gapsHint, format: ms, series: [line(columns.gaps)] },
    {
      name: t.context,
      hint: t.contextHint,
      format: (value) => formatNumber(value),
      series: [line(columns.context)],
    },
  ];
}
