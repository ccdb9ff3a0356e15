import { html, type TemplateResult } from "lit";
import { clock, duration, number } from "../../i18n/format.ts";
import { meter } from "../../ui/controls.ts";
import type { System } from "./live-state.ts";
import { words } from "./words.ts";

/** The five figures that an operator looks at first. `now`: ms by the clock of Redis. */
export function summary(system: System, now: number): TemplateResult {
  const say = words();
  const open = Object.values(system.workers).filter((worker) => worker.open);
  const all = open.reduce((sum, worker) => sum + worker.slots, 0);
  const used = open.reduce((sum, worker) => sum + worker.used, 0);
  const waiting = Object.values(system.queue);
  const oldest = Math.min(...waiting.map((row) => row.queued_at));
  const answer = median(Object.values(system.waits).flatMap((waits) => waits.slice(-1)));
  return html`<dl class="card summary">
    <div class="wide">
      <dt>${say.places}</dt>
      <dd>${say.placesOf(used, all)}${meter(say.places, all > 0 ? used / all : 0, used >= all)}</dd>
    </div>
    <div><dt>${say.waiting}</dt><dd>${number(waiting.length)}</dd></div>
    <div>
      <dt>${say.longest}</dt>
      <dd>${waiting.length > 0 ? clock((now - oldest) / 1000) : say.nobody}</dd>
    </div>
    <div>
      <dt title=${say.answersHint}>${say.answers}</dt>
      <dd>${answer === null ? say.nobody : duration(answer)}</dd>
    </div>
    <div><dt>${say.workers}</dt><dd>${number(Object.keys(system.workers).length)}</dd></div>
    <div><dt>${say.edges}</dt><dd>${number(Object.keys(system.edges).length)}</dd></div>
  </dl>`;
}

function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? null;
}
