import { html, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { cancelTicket } from "../../api/admin.ts";
import { clock } from "../../i18n/format.ts";
import { tellProblem } from "../../shell/problem.ts";
import { toast } from "../../ui/toasts.ts";
import { emptyNote, sessionName, stateBadge } from "./labels.ts";
import type { Rows, WaitingRow } from "./live-state.ts";
import { ask } from "./question.ts";
import { stateWords } from "./state-words.ts";
import { words } from "./words.ts";

/** Who waits, in order. `now`: ms by the clock of Redis. */
export function queue(rows: Rows<WaitingRow>, now: number): TemplateResult {
  const say = words();
  const all = Object.entries(rows).sort(([, one], [, other]) => one.position - other.position);
  if (all.length === 0) {
    return html`<section class="card flush" aria-labelledby="queue">
      <header><h2 id="queue">${say.queue}</h2></header>
      ${emptyNote("clock", say.noQueue)}
    </section>`;
  }
  return html`<section class="card flush" aria-labelledby="queue">
    <header><h2 id="queue">${say.queue}</h2><span class="badge number caution">${all.length}</span></header>
    <div class="table-box" tabindex="0" role="region" aria-label=${say.queue}>
      <table class="table stacked">
        <thead>
          <tr>
            <th scope="col">${say.place}</th>
            <th scope="col">${say.session}</th>
            <th scope="col">${say.state}</th>
            <th scope="col">${say.waited}</th>
            <th scope="col">${say.expected}</th>
            <th><span class="visually-hidden">${say.remove}</span></th>
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
  const say = words();
  return html`<tr>
    <td data-label=${say.place}><span class="place number">${row.position}</span></td>
    <td class="head">${sessionName(row.session, row.kind)}</td>
    <td data-label=${say.state}>${stateBadge(stateWords().states, row.state)}</td>
    <td data-label=${say.waited}>${clock((now - row.queued_at) / 1000)}</td>
    <td data-label=${say.expected}>${clock(row.eta_s)}</td>
    <td class="end">
      <button
        class="button small"
        aria-label=${say.removeOne(row.session)}
        @click=${() => askToRemove(ticket, row.session)}
      >
        ${say.remove}
      </button>
    </td>
  </tr>`;
}

function askToRemove(ticket: string, session: string): void {
  const say = words();
  const run = () => {
    cancelTicket(ticket).then(
      (waited) =>
        toast(
          waited ? { tone: "good", title: words().removed } : { tone: "info", title: words().gone },
        ),
      (error: unknown) => tellProblem(error),
    );
  };
  ask({ title: say.removeAsk, text: say.removeHint(session), yes: say.remove, run });
}
