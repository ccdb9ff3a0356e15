import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import type { ReplayPlayer } from "../../components/replay-player.ts";
import { formatDuration, formatNumber } from "../../i18n/format.ts";
import { latest, type Timeline } from "../../replay/timeline.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { PlayheadValue } from "./playhead-value.ts";
import { viewerStrings } from "./strings.ts";

/** Costs of the unit at the playhead, in the colours of its bar. */
@customElement("an-unit-costs")
export class UnitCosts extends BaseElement {
  @property({ attribute: false }) timeline!: Timeline;
  @property({ attribute: false }) replay!: ReplayPlayer;

  readonly #current = new PlayheadValue(
    this,
    () => this.replay,
    (atMs) => latest(this.timeline.costs, atMs) ?? this.timeline.costs[0] ?? null,
  );

  protected override render(): TemplateResult | typeof nothing {
    const cost = this.#current.value;
    if (cost === null) return nothing;
    const t = viewerStrings().costs;
    const parts = (["read", "think", "speak"] as const).filter((part) => cost[part] > 0);
    return html`<dl>
      ${figure(t.total, formatDuration(cost.total), "total")}
      ${parts.map((part) => figure(t[part], formatDuration(cost[part]), part))}
      ${cost.waited === null ? nothing : figure(t.waited, formatDuration(Math.max(0, cost.waited)))}
      ${cost.context === null ? nothing : figure(t.context, t.tokens(formatNumber(cost.context)))}
    </dl>`;
  }
}

function figure(name: string, value: string, key = ""): TemplateResult {
  return html`<div class=${key}>
    <dt>${name}</dt>
    <dd class="number">${value}</dd>
  </div>`;
}
