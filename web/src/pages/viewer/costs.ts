import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { duration, number } from "../../i18n/format.ts";
import { Element } from "../../ui/element.ts";
import { Follow } from "./follow.ts";
import type { Replay } from "./replay.ts";
import { latest, type Score } from "./score.ts";
import { words } from "./words.ts";

/** What the unit at this place cost, in figures; the colours are those of its bar. */
@customElement("an-costs")
export class Costs extends Element {
  @property({ attribute: false }) score!: Score;
  @property({ attribute: false }) replay!: Replay;

  readonly #current = new Follow(
    this,
    () => this.replay,
    (atMs) => latest(this.score.costs, atMs) ?? this.score.costs[0] ?? null,
  );

  protected override render(): TemplateResult | typeof nothing {
    const cost = this.#current.value;
    if (cost === null) return nothing;
    const say = words().costs;
    const parts = (["read", "think", "speak"] as const).filter((part) => cost[part] > 0);
    return html`<dl>
      ${figure(say.total, duration(cost.total), "total")}
      ${parts.map((part) => figure(say[part], duration(cost[part]), part))}
      ${cost.waited === null ? nothing : figure(say.waited, duration(Math.max(0, cost.waited)))}
      ${cost.context === null ? nothing : figure(say.context, say.tokens(number(cost.context)))}
    </dl>`;
  }
}

function figure(name: string, value: string, key = ""): TemplateResult {
  return html`<div class=${key}>
    <dt>${name}</dt>
    <dd class="number">${value}</dd>
  </div>`;
}
