import { html, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { cancelTicket, estimates, setBaselines } from "../../api/admin.ts";
import type { EtaConfig, EtaReport, SessionKind } from "../../api/answers.ts";
import { common } from "../../i18n/common.ts";
import { formatClock, formatDuration, formatNumber } from "../../i18n/language.ts";
import { showError } from "../../shell/errors.ts";
import { BaseElement, freshId } from "../../ui/base-element.ts";
import { meter } from "../../ui/controls.ts";
import { toast } from "../../ui/toasts.ts";
import { confirmAction } from "./confirm-dialog.ts";
import type { Rows, System, WaitingRow } from "./live-state.ts";
import {
  adminStrings,
  emptyNote,
  kindName,
  named,
  sessionName,
  stateBadge,
  stateStrings,
} from "./strings.ts";

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

/** Part of the names of the fields of a kind. */
type EtaName = "chat" | "half_duplex" | "audio_duplex" | "omni_duplex";

const ROWS: readonly (readonly [EtaName, SessionKind])[] = [
  ["chat", "chat"],
  ["half_duplex", "half_duplex_audio"],
  ["audio_duplex", "audio_duplex"],
  ["omni_duplex", "omni_duplex"],
];

/** EtaReport of waiting times: configured and measured values. */
@customElement("an-admin-estimates")
export class AdminEstimates extends BaseElement {
  readonly #id = freshId("eta");

  @state() private known: EtaReport | null = null;
  @state() private saving = false;

  override connectedCallback(): void {
    super.connectedCallback();
    estimates().then(
      (known) => {
        this.known = known;
      },
      (error: unknown) => showError(error),
    );
  }

  protected override render(): TemplateResult {
    const t = adminStrings();
    return html`<section class="card stack" aria-labelledby="estimates">
      <div class="stack tight">
        <h2 id="estimates">${t.estimates}</h2>
        <p class="small soft">${t.estimatesHint}</p>
      </div>
      ${this.known ? this.#form(this.known) : html`<span class="spinner"></span>`}
    </section>`;
  }

  #form(known: EtaReport): TemplateResult {
    const t = adminStrings();
    return html`<form class="stack" @submit=${this.#save}>
      <div class="estimates">
        ${ROWS.map(([name, kind]) =>
          this.#number(`eta_${name}_s`, {
            label: t.seconds(kindName(kind)),
            hint: measured(known, name),
            value: known.config[`eta_${name}_s`],
            most: 86_400,
          }),
        )}
        ${this.#number("ema_alpha", {
          label: t.alpha,
          hint: t.alphaHint,
          value: known.ema_alpha,
          most: 1,
        })}
      </div>
      <div class="row"><button class="button primary" ?disabled=${this.saving}>${common().save}</button></div>
    </form>`;
  }

  #number(
    name: keyof EtaConfig,
    spec: { label: string; hint: string; value: number; most: number },
  ): TemplateResult {
    const id = `${this.#id}-${name}`;
    return html`<div class="field">
      <label for=${id}>${spec.label}</label>
      <input
        class="input number"
        id=${id}
        name=${name}
        type="number"
        required
        step="any"
        min="0.001"
        max=${spec.most}
        aria-describedby="${id}-hint"
        .value=${String(spec.value)}
      />
      <span class="hint" id="${id}-hint">${spec.hint}</span>
    </div>`;
  }

  readonly #save = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const given = [...form].map(([name, value]) => [name, Number(value)] as const);
    this.saving = true;
    try {
      this.known = await setBaselines(Object.fromEntries(given) as unknown as EtaConfig);
      toast({ tone: "good", title: adminStrings().saved });
    } catch (error) {
      showError(error);
    } finally {
      this.saving = false;
    }
  };
}

function measured(known: EtaReport, name: EtaName): string {
  const average = known[`ema_${name}_s`];
  if (average === null) return adminStrings().unmeasured;
  return adminStrings().measured(formatNumber(average, 1), known[`ema_${name}_samples`]);
}
