import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import type { RecordingMeta } from "../../api/answers.ts";
import type { ReplayPlayer } from "../../components/replay-player.ts";
import { formatClock, formatDuration, formatNumber } from "../../i18n/language.ts";
import { latest, type Timeline } from "../../replay/timeline.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { PlayheadValue } from "./playback.ts";
import { viewerStrings } from "./strings.ts";

/** Duration, reason of the end and settings. */
export function recordingDetails(meta: RecordingMeta, timeline: Timeline): TemplateResult {
  const t = viewerStrings().details;
  const prompt = promptOf(meta);
  return html`<section class="card stack">
    <h2 class="small strong">${t.title}</h2>
    <dl class="facts">
      ${fact(t.length, formatClock(meta.duration_s ?? 0))}
      ${meta.reason === undefined ? nothing : fact(t.ended, viewerStrings().reasons[meta.reason ?? "unknown"])}
      ${costs(meta, timeline)}
    </dl>
    <div>
      ${
        prompt === ""
          ? nothing
          : html`<details class="fold">
              <summary>${t.prompt}</summary>
              <p class="text small">${prompt}</p>
            </details>`
      }
      ${
        Object.keys(meta.config).length === 0
          ? nothing
          : html`<details class="fold">
              <summary>${t.settings}</summary>
              <pre tabindex="0" aria-label=${t.settings}>${JSON.stringify(meta.config, null, 2)}</pre>
            </details>`
      }
    </div>
  </section>`;
}

function costs(meta: RecordingMeta, { costs }: Timeline): TemplateResult | typeof nothing {
  const totals = costs.map(({ total }) => total).filter((total) => total > 0);
  if (totals.length === 0) return nothing;
  const t = viewerStrings().costs;
  totals.sort((a, b) => a - b);
  const median = totals[Math.floor(totals.length / 2)] ?? 0;
  if (meta.turns != null) return fact(t.medianTurn, formatDuration(median));
  return html`${fact(t.median, formatDuration(median))} ${fact(t.slowest, formatDuration(totals.at(-1) ?? 0))}`;
}

function fact(name: string, value: string): TemplateResult {
  return html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;
}

function promptOf({ config }: RecordingMeta): string {
  const prompt = config["system_prompt"];
  return typeof prompt === "string" ? prompt.trim() : "";
}

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
