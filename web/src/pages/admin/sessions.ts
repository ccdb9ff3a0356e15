import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { clock } from "../../i18n/format.ts";
import { emptyNote, sessionName, stateBadge } from "./labels.ts";
import type { SessionRow, System } from "./live-state.ts";
import { sparkline } from "./sparkline.ts";
import { stateWords } from "./state-words.ts";
import { words } from "./words.ts";

/** Who talks now, those who began first in front. `now`: ms by the clock of Redis. */
export function sessions(system: System, now: number): TemplateResult {
  const say = words();
  const all = Object.entries(system.sessions).sort(
    ([, one], [, other]) => one.assigned_at - other.assigned_at,
  );
  if (all.length === 0) {
    return html`<section class="card flush" aria-labelledby="sessions">
      <header><h2 id="sessions">${say.sessions}</h2></header>
      ${emptyNote("phone", say.noSessions)}
    </section>`;
  }
  return html`<section class="card flush" aria-labelledby="sessions">
    <header><h2 id="sessions">${say.sessions}</h2><span class="badge number">${all.length}</span></header>
    <div class="table-box" tabindex="0" role="region" aria-label=${say.sessions}>
      <table class="table stacked">
        <thead>
          <tr>
            <th scope="col">${say.session}</th>
            <th scope="col">${say.state}</th>
            <th scope="col">${say.latency}</th>
            <th scope="col">${say.since}</th>
            <th scope="col">${say.worker}</th>
            <th scope="col">${say.history}</th>
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
  const say = words();
  return html`<tr>
    <td class="head">${sessionName(id, row.kind)}</td>
    <td data-label=${say.state}>${stateBadge(stateWords().states, row.state)}</td>
    <td data-label=${say.latency}>${sparkline(waits)}</td>
    <td data-label=${say.since}>${clock((now - row.assigned_at) / 1000)}</td>
    <td data-label=${say.worker}><span class="id truncate" title=${row.worker}>${row.worker}</span></td>
    <td class="history" data-label=${say.history}>${history(row)}</td>
  </tr>`;
}

function history(row: SessionRow): TemplateResult | typeof nothing {
  const say = words();
  const parts = [
    row.resumes > 0 ? say.resumed(row.resumes) : "",
    row.attempt > 1 ? say.moved(row.attempt - 1) : "",
  ].filter((part) => part !== "");
  if (parts.length === 0) return nothing;
  return html`<span class="soft">${parts.join(", ")}</span>`;
}
