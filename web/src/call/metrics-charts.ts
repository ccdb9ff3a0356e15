import { html, type TemplateResult } from "lit";
import { customElement, property, query } from "lit/decorators.js";
import uPlot from "uplot";
import { formatDuration, formatNumber } from "../i18n/language.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import type { UnitSeries } from "./call-log.ts";
import type { metricsStrings } from "./metrics-strings.ts";
import "uplot/dist/uPlot.min.css";
import "./panel.css";

interface ChartSeries {
  readonly values: readonly (number | null)[];
  readonly tone: "model" | "user";
  /** Draws dots instead of a line. */
  readonly dots?: boolean;
}

const HEIGHT = 72;
const AXIS = 52;

/** A small line chart over time with one or two series, drawn by uPlot. */
@customElement("an-line-chart")
export class LineChart extends BaseElement {
  #plot: uPlot | null = null;
  readonly #watch = new ResizeObserver(() => this.#fit());

  @property() label = "";
  @property({ attribute: false }) time: readonly number[] = [];
  @property({ attribute: false }) series: readonly ChartSeries[] = [];
  @property({ attribute: false }) format: (value: number) => string = String;
  @property({ attribute: false }) version = 0;

  @query(".box") private readonly box!: HTMLElement;

  override disconnectedCallback(): void {
    this.#watch.disconnect();
    this.#plot?.destroy();
    this.#plot = null;
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    return html`<i class="model"></i><i class="user"></i><i class="grid"></i><i class="soft"></i>
      <div class="box" role="img" aria-label="${this.label}: ${this.#newest}"></div>`;
  }

  protected override updated(changed: ChangedProperties<this>): void {
    this.#plot ??= this.#open();
    if (changed.has("version")) this.#plot.setData(this.#data);
  }

  get #newest(): string {
    const value = this.series[0]?.values.findLast((one) => one !== null);
    return value === undefined || value === null ? "–" : this.format(value);
  }

  get #data(): uPlot.AlignedData {
    return [[...this.time], ...this.series.map(({ values }) => [...values])];
  }

  #open(): uPlot {
    this.#watch.observe(this);
    return new uPlot(this.#options(), this.#data, this.box);
  }

  #fit(): void {
    const width = this.clientWidth;
    if (width > 0) this.#plot?.setSize({ width, height: HEIGHT });
  }

  #options(): uPlot.Options {
    return {
      width: Math.max(120, this.clientWidth),
      height: HEIGHT,
      padding: [6, 4, 4, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false }, y: { range: fromZero } },
      axes: [{ show: false }, this.#axis()],
      series: [{}, ...this.series.map((one) => this.#line(one))],
    };
  }

  #line({ tone, dots = false }: ChartSeries): uPlot.Series {
    const colour = (): string => this.#colour(tone);
    const points = { show: dots, size: 7, fill: colour, stroke: colour };
    if (dots) return { stroke: colour, points, paths: () => null };
    return { stroke: colour, width: 1.75, points, spanGaps: false };
  }

  #axis(): uPlot.Axis {
    return {
      size: AXIS,
      gap: 4,
      space: 26,
      stroke: () => this.#colour("soft"),
      font: `11px ${getComputedStyle(this).fontFamily}`,
      grid: { stroke: () => this.#colour("grid"), width: 1 },
      ticks: { show: false },
      values: (_, splits) => splits.map((value) => this.format(value)),
    };
  }

  /** Reads the current colours of the style sheet, light or dark. */
  #colour(name: ChartSeries["tone"] | "grid" | "soft"): string {
    const sample = this.querySelector(`i.${name}`);
    return sample ? getComputedStyle(sample).color : "";
  }
}

/** The scale includes zero, and has a minimum range so that small changes look small. */
function fromZero(_: uPlot, low: number, high: number): uPlot.Range.MinMax {
  const [bottom, top] = [Math.min(0, low ?? 0), Math.max(10, high ?? 0)];
  return [bottom * 1.1, top * 1.1];
}

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

  /** A property, because an import would move the panel that opens the charts into a file of its own. */
  @property({ attribute: false }) strings: typeof metricsStrings | null = null;

  override connectedCallback(): void {
    this.textContent = ""; // removes the loading text
    super.connectedCallback();
  }

  protected override render(): TemplateResult {
    const { columns, strings } = this;
    if (columns === null || strings === null) return html``;
    return html`${charts(columns, strings()).map(
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

function charts(columns: UnitSeries, t: ReturnType<typeof metricsStrings>): Chart[] {
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
