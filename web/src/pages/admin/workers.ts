import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { drainWorker } from "../../api/admin.ts";
import { duration, number } from "../../i18n/format.ts";
import { tellProblem } from "../../shell/problem.ts";
import { meter } from "../../ui/controls.ts";
import { toast } from "../../ui/toasts.ts";
import { emptyNote, kindIcon, kindName, stateBadge } from "./labels.ts";
import type { Rows, WorkerRow } from "./live-state.ts";
import { ask } from "./question.ts";
import { stateWords } from "./state-words.ts";
import { words } from "./words.ts";
import "./workers.css";

const GB = 1e9;
const PIPS_AT_MOST = 24;
const MEMORY_HOT = 0.92;

/** Every worker as a card: what it is, what it does, how full it is. */
export function workers(rows: Rows<WorkerRow>): TemplateResult {
  const say = words();
  const all = Object.entries(rows).sort(([one], [other]) => one.localeCompare(other));
  return html`<section class="stack" aria-labelledby="workers">
    <h2 id="workers">${say.workers}</h2>
    ${
      all.length === 0
        ? html`<div class="card">${emptyNote("alert", say.noWorkers, say.noWorkersHint)}</div>`
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
  const say = words();
  return html`<div class="row apart still">
      <h3 class="id truncate" title=${id}>${id}</h3>
      ${stateBadge(stateWords().workerStates, row.state)}
    </div>
    <p class="small soft truncate">${row.engine} · ${row.model}</p>
    ${slots(row)} ${row.detail ? html`<p class="small detail">${row.detail}</p>` : nothing}
    ${facts(row)}
    <div class="row apart">
      <span class="kinds soft" role="img" aria-label="${say.serves}: ${row.kinds.map(kindName).join(", ")}">
        ${row.kinds.map(kindIcon)}
      </span>
      <button
        class="button small"
        aria-label="${say.drain} ${id}"
        ?disabled=${row.state === "draining"}
        @click=${() => askToDrain(id)}
      >
        ${say.drain}
      </button>
    </div>`;
}

function slots({ slots, used }: WorkerRow): TemplateResult {
  const label = words().slotsOf(used, slots);
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
  const say = words();
  const {
    sessions = 0,
    units = 0,
    unit_ms_total: ms = 0,
    deadline_misses: late = 0,
  } = row.counters;
  return html`<dl class="lines small">
    <div><dt>${say.device}</dt><dd class="truncate">${row.device}</dd></div>
    ${row.memory ? memory(row.memory) : nothing}
    <div><dt>${say.served}</dt><dd>${number(sessions)}</dd></div>
    <div><dt>${say.mean}</dt><dd>${units > 0 ? duration(ms / units) : say.nobody}</dd></div>
    <div><dt>${say.misses}</dt><dd>${number(late)}</dd></div>
  </dl>`;
}

function memory({ used, total }: NonNullable<WorkerRow["memory"]>): TemplateResult {
  const say = words();
  const text = say.memoryOf(number(used / GB, 1), number(total / GB, 0));
  return html`<div>
    <dt>${say.memory}</dt>
    <dd class="memory">${meter(`${say.memory}: ${text}`, used / total, used / total > MEMORY_HOT)}<span>${text}</span></dd>
  </div>`;
}

function askToDrain(id: string): void {
  const say = words();
  const run = () => {
    drainWorker(id).then(
      () => toast({ tone: "good", title: words().drainAsked }),
      (error: unknown) => tellProblem(error),
    );
  };
  ask({ title: say.drainAsk(id), text: say.drainHint, yes: say.drain, run });
}
