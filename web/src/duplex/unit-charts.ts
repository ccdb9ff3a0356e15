import { html, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { duration, number } from "../i18n/format.ts";
import { Element } from "../ui/element.ts";
import "./spark-chart.ts";
import { measuresWords as words } from "./measures-words.ts";
import type { Series } from "./spark-chart.ts";
import type { UnitColumns } from "./unit-history.ts";

interface Chart {
  readonly name: string;
  readonly hint: string;
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
}

/** How a call's measures went, a small chart each. */
@customElement("an-unit-charts")
export class UnitCharts extends Element {
  @property({ attribute: false }) columns: UnitColumns | null = null;
  /** Draws anew when it changes: the columns are the same objects throughout a call. */
  @property({ attribute: false }) units = 0;

  override connectedCallback(): void {
    this.textContent = ""; // what stood here until this was loaded
    super.connectedCallback();
  }

  protected override render(): TemplateResult {
    const { columns } = this;
    if (columns === null) return html``;
    return html`${charts(columns).map(
      ({ name, hint, series, format }) => html`<figure>
        <figcaption class="tiny" title=${hint}>${name}</figcaption>
        <an-spark
          .label=${name}
          .time=${columns.time}
          .series=${series}
          .format=${format}
          .version=${this.units}
        ></an-spark>
      </figure>`,
    )}`;
  }
}

function charts(columns: UnitColumns): Chart[] {
  const say = words();
  const ms = (value: number): string => duration(Math.round(value));
  const line = (values: Series["values"]): Series => ({ values, tone: "they" });
  return [
    { name: say.latency, hint: say.latencyHint, format: ms, series: [line(columns.latency)] },
    {
      name: say.firstSound,
      hint: say.firstSoundHint,
      format: ms,
      series: [{ values: columns.firstSound, tone: "they", dots: true }],
    },
    {
      name: say.cost,
      hint: say.costHint,
      format: ms,
      series: [line(columns.cost), { values: columns.words, tone: "you" }],
    },
    { name: say.drift, hint: say.driftHint, format: ms, series: [line(columns.drift)] },
    { name: say.gaps, hint: say.gapsHint, format: ms, series: [line(columns.gaps)] },
    {
      name: say.context,
      hint: say.contextHint,
      format: (value) => number(value),
      series: [line(columns.context)],
    },
  ];
}
