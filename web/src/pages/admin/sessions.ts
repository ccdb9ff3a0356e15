import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { formatClock } from "../../i18n/format.ts";
import { emptyNote, sessionName, stateBadge } from "./labels.ts";
import type { SessionRow, System } from "./live-state.ts";
import { sparkline } from "./sparkline.ts";
import { stateStrings } from "./state-strings.ts";
import { adminStrings } from "./strings.ts";

/** Who talks now, those who began first in front. `now`: ms by the clock of Redis. */
export function sessionTable(system: System, now: number): TemplateResult {
  const t = adminStrings();
  const all = Object.entries(system.sessions).sort(
    ([, one], [, other]) => one.assigned_at - other.assigned_at,
  );
  if (all.length === 0) {
    return html`<section class="card flush" aria-labelledby="sessions">
      <header><h2 id="sessions">${t.sessions}</h2></header>
      ${emptyNote("phone", t.noSessions)}
    </section>`;
  }
  return html`<section class="card flush" aria-labelledby="sessions">
    <header><h2 id="sessions">${t.sessions}</h2><span class="badge number">${all.length}</span></header>
    <div class="table-box" tabindex="0" role="region" aria-label=${t.sessions}>
      <table class="table stacked">
        <thead>
          <tr>
            <th scope="col">${t.session}</th>
            <th scope="col">${t.state}</th>
            <th scope="col">${t.latency}</th>
            <th scope="col">${t.since}</th>
            <th scope="col">${t.worker}</th>
            <th scope="col">${t.history}</th>
          </tr>
        </thead>
        <tbody>
          ${repeat(
            all,
            ([id]) => id,
            ([id, row]) => line(id, row, system.waits[id] ?? [], now),
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

function line(id: string, row: SessionRow, waits: readonly number[], now: number): TemplateResult {
  const t = adminStrings();
  return html`<tr>
    <td class="head">${sessionName(id, row.kind)}</td>
    <td data-label=${t.state}>${stateBadge(stateStrings().states, row.state)}</td>
    <td data-label=${t.latency}>${sparkline(waits)}</td>
    <td data-label=${t.since}>${formatClock((now - row.assigned_at) / 1000)}</td>
    <td data-label=${t.worker}><span class="id truncate" title=${row.worker}>${row.worker}</span></td>
    <td class="history" data-label=${t.history}>${history(row)}</td>
  </tr>`;
}

function history(row: SessionRow): TemplateResult | typeof nothing {
  const t = adminStrings();
  const parts = [
    row.resumes > 0 ? t.resumed(row.resumes) : "",
    row.attempt > 1 ? t.moved(row.attempt - 1) : "",
  ].filter((part) => part !== "");
  if (parts.length === 0) return nothing;
  return html`<span class="soft">${parts.join(", ")}</span>`;
}
