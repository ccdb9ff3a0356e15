import { html, nothing, svg, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { cancelTicket, drainWorker } from "../../api/admin.ts";
import { formatClock, formatDuration, formatNumber } from "../../i18n/language.ts";
import { showError } from "../../shell/errors.ts";
import { meter } from "../../ui/controls.ts";
import { inactive } from "../../ui/inactive.ts";
import { toast } from "../../ui/toasts.ts";
import { confirmAction } from "./confirm-dialog.ts";
import type { Rows, SessionRow, System, WaitingRow, WorkerRow } from "./live-state.ts";
import {
  adminStrings,
  emptyNote,
  kindIcon,
  kindName,
  named,
  sessionName,
  stateBadge,
  stateStrings,
} from "./strings.ts";

const GB = 1e9;
const PIPS_AT_MOST = 24;
const MEMORY_HOT = 0.92;

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
      <dt title="${t.answersHint} ${t.latencyHint}">${t.answers}</dt>
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

/** A card for each worker: device, state, sessions and load. */
export function workerCards(rows: Rows<WorkerRow>): TemplateResult {
  const t = adminStrings();
  const all = Object.entries(rows).sort(([one], [other]) => one.localeCompare(other));
  return html`<section class="stack" aria-labelledby="workers">
    <h2 id="workers">${t.workers}</h2>
    ${
      all.length === 0
        ? html`<div class="card">${emptyNote("alert", t.noWorkers, t.noWorkersHint)}</div>`
        : html`<ul role="list" class="workers">
            ${repeat(
              all,
              ([id]) => id,
              ([id, row]) => html`<li class="card">${card(id, row)}</li>`,
            )}
          </ul>`
    }
  </section>`;
}

function card(id: string, row: WorkerRow): TemplateResult {
  const t = adminStrings();
  return html`<div class="row apart still">
      <h3 class="id truncate" title=${id}>${id}</h3>
      ${stateBadge(stateStrings().workerStates, row.state)}
    </div>
    <p class="small soft truncate">${row.engine} · ${row.model}</p>
    ${slots(row)} ${row.detail ? html`<p class="small detail">${row.detail}</p>` : nothing}
    ${facts(row)}
    <div class="row apart">
      <span class="kinds soft" role="img" aria-label="${t.serves}: ${row.kinds.map(kindName).join(", ")}">
        ${row.kinds.map(kindIcon)}
      </span>
      <button
        class="button small"
        aria-label="${t.drain} ${id}"
        ${inactive(row.state === "draining")}
        @click=${() => askToDrain(id)}
      >
        ${t.drain}
      </button>
    </div>`;
}

function slots({ slots, used }: WorkerRow): TemplateResult {
  const label = adminStrings().slotsOf(used, slots);
  const pips = Array.from(
    { length: slots },
    (_, n) => html`<i class=${n < used ? "used" : ""}></i>`,
  );
  return html`<div class="stack tight">
    ${
      slots > PIPS_AT_MOST
        ? meter(label, used / slots, used >= slots)
        : html`<span class="pips" role="img" aria-label=${label}>${pips}</span>`
    }
    <span class="tiny soft number" aria-hidden="true">${label}</span>
  </div>`;
}

function facts(row: WorkerRow): TemplateResult {
  const t = adminStrings();
  const {
    sessions = 0,
    units = 0,
    unit_ms_total: ms = 0,
    deadline_misses: late = 0,
  } = row.counters;
  return html`<dl class="lines small">
    <div><dt>${t.device}</dt><dd class="truncate">${row.device}</dd></div>
    ${row.memory ? memory(row.memory) : nothing}
    <div><dt>${t.served}</dt><dd>${formatNumber(sessions)}</dd></div>
    <div><dt>${t.mean}</dt><dd>${units > 0 ? formatDuration(ms / units) : t.none}</dd></div>
    <div><dt>${t.misses}</dt><dd>${formatNumber(late)}</dd></div>
  </dl>`;
}

function memory({ used, total }: NonNullable<WorkerRow["memory"]>): TemplateResult {
  const t = adminStrings();
  const text = t.memoryOf(formatNumber(used / GB, 1), formatNumber(total / GB, 0));
  return html`<div>
    <dt>${t.memory}</dt>
    <dd class="memory">${meter(`${t.memory}: ${text}`, used / total, used / total > MEMORY_HOT)}<span>${text}</span></dd>
  </div>`;
}

function askToDrain(id: string): void {
  const t = adminStrings();
  const run = () => {
    drainWorker(id).then(
      () => toast({ tone: "good", title: adminStrings().drainAsked }),
      (error: unknown) => showError(error),
    );
  };
  confirmAction({ title: t.drainAsk(id), text: t.drainHint, yes: t.drain, run });
}

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
            <th scope="col" title=${t.latencyHint}>${t.latency}</th>
            <th scope="col">${t.since}</th>
            <th scope="col">${t.worker}</th>
            <th scope="col">${t.history}</th>
          </tr>
        </thead>
        <tbody>
          ${repeat(
            all,
            ([id]) => id,
            ([id, row]) => sessionLine(id, row, system.waits[id] ?? [], now),
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

function sessionLine(
  id: string,
  row: SessionRow,
  waits: readonly number[],
  now: number,
): TemplateResult {
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
function sparkline(waits: readonly number[]): TemplateResult {
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

/** Queued sessions in order. `now`: ms of the Redis clock. */
export function queueTable(rows: Rows<WaitingRow>, now: number): TemplateResult {
  const t = adminStrings();
  const all = Object.entries(rows).sort(([, one], [, other]) => one.position - other.position);
  if (all.length === 0) {
    return html`<section class="card flush" aria-labelledby="queue">
      <header><h2 id="queue">${t.queue}</h2></header>
      ${emptyNote("clock", t.noQueue)}
    </section>`;
  }
  return html`<section class="card flush" aria-labelledby="queue">
    <header><h2 id="queue">${t.queue}</h2><span class="badge number caution">${all.length}</span></header>
    <div class="table-box" tabindex="0" role="region" aria-label=${t.queue}>
      <table class="table stacked">
        <thead>
          <tr>
            <th scope="col">${t.position}</th>
            <th scope="col">${t.session}</th>
            <th scope="col">${t.state}</th>
            <th scope="col">${t.waited}</th>
            <th scope="col">${t.expected}</th>
            <th><span class="visually-hidden">${t.remove}</span></th>
          </tr>
        </thead>
        <tbody>
          ${repeat(
            all,
            ([ticket]) => ticket,
            ([ticket, row]) => waitingLine(ticket, row, now),
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

function waitingLine(ticket: string, row: WaitingRow, now: number): TemplateResult {
  const t = adminStrings();
  return html`<tr>
    <td data-label=${t.position}><span class="place number">${row.position}</span></td>
    <td class="head">${sessionName(row.session, row.kind)}</td>
    <td data-label=${t.state}>${stateBadge(stateStrings().states, row.state)}</td>
    <td data-label=${t.waited}>${formatClock((now - row.queued_at) / 1000)}</td>
    <td data-label=${t.expected}>${expected(row)}</td>
    <td class="end">
      <button
        class="button small"
        aria-label=${t.removeOne(row.session)}
        @click=${() => askToRemove(ticket, row.session)}
      >
        ${t.remove}
      </button>
    </td>
  </tr>`;
}

function expected({ eta_s, reason }: WaitingRow): string {
  return eta_s === null ? named(stateStrings().waitReasons, reason ?? "") : formatClock(eta_s);
}

function askToRemove(ticket: string, session: string): void {
  const t = adminStrings();
  const run = () => {
    cancelTicket(ticket).then(
      (waited) =>
        toast(
          waited
            ? { tone: "good", title: adminStrings().removed }
            : { tone: "info", title: adminStrings().notQueued },
        ),
      (error: unknown) => showError(error),
    );
  };
  confirmAction({ title: t.removeAsk, text: t.removeHint(session), yes: t.remove, run });
}
