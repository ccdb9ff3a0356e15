import { html, nothing, svg, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { formatClock, formatDuration } from "../../i18n/format.ts";
import { emptyNote, sessionName, stateBadge, stateStrings } from "./labels.ts";
import type { SessionRow, System } from "./live-state.ts";
import { adminStrings } from "./strings.ts";

/** Active sessions, oldest first. `now`: ms of the Redis clock. */
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

const WIDTH = 120;
const HEIGHT = 28;
const EDGE = 2.5;
/** A line with fewer points is aligned to the right. */
const POINTS = 12;
/** Minimum range of the scale, ms. Small differences do not fill the height. */
const LEAST_MS = 100;

/** Sparkline of the latencies of the newest answers, newest on the right. */
export function sparkline(waits: readonly number[]): TemplateResult {
  const last = waits.at(-1);
  if (last === undefined) return html`<span class="soft">${adminStrings().none}</span>`;
  const most = Math.max(...waits);
  const step = (WIDTH - 2 * EDGE) / (Math.max(POINTS, waits.length) - 1);
  const points = waits.map((ms, n) => {
    const x = WIDTH - EDGE - (waits.length - 1 - n) * step;
    const y = HEIGHT - EDGE - (ms / Math.max(most, LEAST_MS)) * (HEIGHT - 2 * EDGE);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const end = points.at(-1)?.split(",");
  return html`<span class="latency">
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${adminStrings().lately(formatDuration(last), formatDuration(most))}>
      ${svg`<line x1="0" x2=${WIDTH} y1=${HEIGHT - 1} y2=${HEIGHT - 1} /><polyline points=${points.join(" ")} /><circle cx=${end?.[0]} cy=${end?.[1]} r="2.5" />`}
    </svg>
    <span class="number strong">${formatDuration(last)}</span>
  </span>`;
}
