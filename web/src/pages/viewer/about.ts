import { html, nothing, type TemplateResult } from "lit";
import type { Meta } from "../../api/recordings.ts";
import { clock, duration } from "../../i18n/format.ts";
import type { Score } from "./score.ts";
import { words } from "./words.ts";

/** How long, how it ended, with what settings. */
export function about(meta: Meta, score: Score): TemplateResult {
  const say = words().about;
  const prompt = promptOf(meta);
  return html`<section class="card stack">
    <h2 class="small strong">${say.title}</h2>
    <dl class="facts">
      ${fact(say.length, clock(meta.duration_s ?? 0))}
      ${fact(say.ended, words().reasons[meta.reason ?? "unknown"])}
      ${costs(meta, score)}
    </dl>
    <div>
      ${
        prompt === ""
          ? nothing
          : html`<details class="fold">
              <summary>${say.prompt}</summary>
              <p class="text small">${prompt}</p>
            </details>`
      }
      <details class="fold">
        <summary>${say.settings}</summary>
        <pre tabindex="0" aria-label=${say.settings}>${JSON.stringify(meta.config, null, 2)}</pre>
      </details>
    </div>
  </section>`;
}

function costs(meta: Meta, { costs }: Score): TemplateResult | typeof nothing {
  const totals = costs.map(({ total }) => total).filter((total) => total > 0);
  if (totals.length === 0) return nothing;
  const say = words().costs;
  totals.sort((a, b) => a - b);
  const median = totals[Math.floor(totals.length / 2)] ?? 0;
  if (meta.turns != null) return fact(say.medianTurn, duration(median));
  return html`${fact(say.median, duration(median))} ${fact(say.slowest, duration(totals.at(-1) ?? 0))}`;
}

function fact(name: string, value: string): TemplateResult {
  return html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;
}

function promptOf({ config }: Meta): string {
  const prompt = config["system_prompt"];
  return typeof prompt === "string" ? prompt.trim() : "";
}
