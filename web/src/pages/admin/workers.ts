import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { drainWorker } from "../../api/admin.ts";
import { formatDuration, formatNumber } from "../../i18n/format.ts";
import { showError } from "../../shell/errors.ts";
import { meter } from "../../ui/controls.ts";
import { toast } from "../../ui/toasts.ts";
import { confirmAction } from "./confirm-dialog.ts";
import { emptyNote, kindIcon, kindName, stateBadge, stateStrings } from "./labels.ts";
import type { Rows, WorkerRow } from "./live-state.ts";
import { adminStrings } from "./strings.ts";

const GB = 1e9;
const PIPS_AT_MOST = 24;
const MEMORY_HOT = 0.92;

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
        ?disabled=${row.state === "draining"}
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
