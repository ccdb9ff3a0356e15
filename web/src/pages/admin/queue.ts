import { html, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { cancelTicket } from "../../api/admin.ts";
import { formatClock } from "../../i18n/format.ts";
import { showError } from "../../shell/errors.ts";
import { toast } from "../../ui/toasts.ts";
import { confirmAction } from "./confirm-dialog.ts";
import { emptyNote, named, sessionName, stateBadge } from "./labels.ts";
import type { Rows, WaitingRow } from "./live-state.ts";
import { stateStrings } from "./state-strings.ts";
import { adminStrings } from "./strings.ts";

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
            ([ticket, row]) => line(ticket, row, now),
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

function line(ticket: string, row: WaitingRow, now: number): TemplateResult {
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
