import { html, type TemplateResult } from "lit";
import { formatClock, formatDuration, formatNumber } from "../../i18n/format.ts";
import { meter } from "../../ui/controls.ts";
import type { System } from "./live-state.ts";
import { adminStrings } from "./strings.ts";

/** Five key figures. `now`: ms of the Redis clock. */
export function summary(system: System, now: number): TemplateResult {
  const t = adminStrings();
  const open = Object.values(system.workers).filter((worker) => worker.open);
  const all = open.reduce((sum, worker) => sum + worker.slots, 0);
  const used = open.reduce((sum, worker) => sum + worker.used, 0);
  const waiting = Object.values(system.queue);
  const oldest = Math.min(...waiting.map((row) => row.queued_at));
  const answer = median(Object.values(system.waits).flatMap((waits) => waits.slice(-1)));
  return html`<dl class="card summary">
    <div class="wide">
      <dt>${t.slots}</dt>
      <dd>${t.slotsInUse(used, all)}${meter(t.slots, all > 0 ? used / all : 0, used >= all)}</dd>
    </div>
    <div><dt>${t.waiting}</dt><dd>${formatNumber(waiting.length)}</dd></div>
    <div>
      <dt>${t.longest}</dt>
      <dd>${waiting.length > 0 ? formatClock((now - oldest) / 1000) : t.none}</dd>
    </div>
    <div>
      <dt title=${t.answersHint}>${t.answers}</dt>
      <dd>${answer === null ? t.none : formatDuration(answer)}</dd>
    </div>
    <div><dt>${t.workers}</dt><dd>${formatNumber(Object.keys(system.workers).length)}</dd></div>
    <div><dt>${t.edges}</dt><dd>${formatNumber(Object.keys(system.edges).length)}</dd></div>
  </dl>`;
}

function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? null;
}
